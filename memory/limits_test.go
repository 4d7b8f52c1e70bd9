package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

// What was displaced under a limit keeps the limit in use until it is fresh, and no
// longer: a large store remembers more limits of displaced keys than there are ids.
func TestLimitsOfDisplacedKeysAreUsedAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	m := New(Options{MaxKeys: 1, Clock: func() time.Time { return now }})
	out := make([]limits.Decision, 1)
	for i := range int64(100) {
		period := time.Second
		if i%2 > 0 {
			period = time.Minute
		}
		charge := limits.Charge{Scope: fmt.Sprint(i), Key: "k", Limit: limits.FixedWindow(limits.Per(10+i, period)), Cost: 1}
		if err := m.Take(t.Context(), []limits.Charge{charge}, out); err != nil {
			t.Fatal(err)
		}
	}
	for _, pause := range []time.Duration{2 * time.Second, 2 * time.Minute} {
		now = now.Add(pause)
		if err := m.retireLimits(); err != nil {
			t.Fatal(err)
		}
		remembered, live := len(m.shards[0].floors), 0
		for _, f := range m.shards[0].floors {
			if f.limit.given.Rate().Period == time.Minute {
				live++
			}
			if f.limit.retired.Load() {
				t.Errorf("%v later: %v is remembered, and retired", pause, f.limit.given)
			}
		}
		if pause > time.Minute && len(m.limits.known) > 0 || remembered > live || pause < time.Minute && live == 0 {
			t.Errorf("%v later: %d limits are in use, %d remembered, %d of them live", pause, len(m.limits.known), remembered, live)
		}
	}
}
