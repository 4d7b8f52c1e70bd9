package client

import (
	"testing"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

func TestWhatIsLeftOfAHugeLimitIsSpread(t *testing.T) {
	for _, limit := range []int64{1000, 1e10, quota.MaxCount} {
		known := told{whole: true, left: 5, limit: limit, renew: instant(time.Hour)}
		known.refill.every = time.Hour
		known.spread(0, 0)
		if want := 10 * time.Minute; known.refill.gap != want {
			t.Errorf("limit %d: a gap of %v, want %v", limit, known.refill.gap, want)
		}
	}
}
