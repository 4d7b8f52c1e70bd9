package adaptive

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	mostCut   = 0.3 // part of the requests in flight that a decrease leaves at least
	longDrain = 5 * time.Second
)

// drain is the time after a decrease until the requests have ended that were admitted before it,
// and those that waited behind them. Their latencies say nothing of the new limit.
type drain struct {
	until   time.Time // draining lasts at least so long
	atMost  time.Time // and no longer
	cleanAt time.Time // from then on, requests end that began under the new limit
	left    float64   // requests from before the decrease, if the oldest end first
}

// over reports whether no more requests are in flight than limit, or time is up.
func (d *drain) over(s *shedlimit.Sample, w *view, limit float64, now time.Time) bool {
	above := float64(s.InFlight) > math.Round(limit) || now.Before(d.until)
	if above && now.Before(d.atMost) {
		return false
	}
	d.left = float64(s.InFlight)
	d.cleanAt = now.Add(min(w.typical, w.takes(d.left)))
	return true
}

// settled reports whether all requests that ended in the window began under the present limit, and
// waited behind none from before.
func (d *drain) settled(s *shedlimit.Sample, w *view, now time.Time) bool {
	if start := now.Add(-s.Elapsed); !start.Before(d.cleanAt) {
		return true
	}
	// After a hang, the rate of the last window says nothing of the next.
	d.left = max(0, d.left-float64(w.completed))
	if soon := now.Add(w.takes(d.left)); soon.Before(d.cleanAt) {
		d.cleanAt = soon
	}
	return false
}
