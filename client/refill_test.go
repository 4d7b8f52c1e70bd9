package client

import (
	"testing"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

func TestWhatIsLeftOfAHugeLimitIsSpread(t *testing.T) {
	for _, limit := range []int64{1000, 1e10, quota.MaxCount} {
		b := bucket{told: told{whole: true, left: 5, limit: limit, renew: instant(time.Hour)}}
		b.refill.every = time.Hour
		b.spread(0)
		if want := 10 * time.Minute; b.refill.gap != want {
			t.Errorf("limit %d: a gap of %v, want %v", limit, b.refill.gap, want)
		}
	}
}
