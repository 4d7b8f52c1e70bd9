package conform

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/proof/testrun"
)

// Whenever a run is interrupted, it returns an error, so that its programs are ended.
func TestARunMayBeInterruptedAtAnyTime(t *testing.T) {
	seed := testrun.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range len(checks) * testrun.Sized(3, 30) {
		p := fakeProfile(t, "store: redis")
		only := []string{checks[i%len(checks)].Name}
		h := &fakeHost{late: time.Millisecond, random: random, open: func(s *store, _ bool) http.Handler {
			return &fake{profile: p, store: s}
		}}
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(8*time.Second))))
			defer cancel()
			_, err := run(ctx, p, h, Options{Seed: 1, Only: only, memoryKeys: fewKeys})
			if err == nil && ctx.Err() != nil || err != nil && !strings.HasPrefix(err.Error(), "the run was interrupted") {
				t.Errorf("%s: got %v", only, err)
			}
		})
	}
}
