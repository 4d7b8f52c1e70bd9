package client

import (
	"testing"
	"time"
)

func TestWhatIsLeftOfAHugeLimitIsSpread(t *testing.T) {
	for _, limit := range []int64{1000, 1e10, maxCount} {
		b := bucket{reset: true, left: 5, limit: limit, renew: instant(time.Hour)}
		b.refill.every = time.Hour
		b.setGap(0)
		if want := 10 * time.Minute; b.gap != want {
			t.Errorf("limit %d: a gap of %v, want %v", limit, b.gap, want)
		}
	}
}
