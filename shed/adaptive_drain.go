package shed

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

// cut lowers the limit to what goal requests in flight need, and to no less than mostCut of those
// that are in flight.
func (a *adaptive) cut(w *view, goal float64) {
	goal = min(w.now, max(goal, mostCut*w.now))
	scale := 1.0
	if w.limited {
		// Classes with small shares fill only a part of the limit, and will of the lower one.
		scale = max(1, a.reach()/w.now)
	}
	a.limit = max(1, min(a.reach(), goal*scale))
	a.loan.lent = 0
	a.drain = drain{atMost: a.now.Add(longDrain + 2*w.typical)}
	a.drain.until = a.now.Add(min(2*time.Second, w.takes(w.now-goal)))
}

// drained reports whether no more requests are in flight than the limit allows, or time is up.
func (a *adaptive) drained(s *shedlimit.Sample, w *view) bool {
	d := &a.drain
	over := float64(s.InFlight) > math.Round(a.limit) || a.now.Before(d.until)
	if over && a.now.Before(d.atMost) {
		return false
	}
	d.left = float64(s.InFlight)
	d.cleanAt = a.now.Add(min(w.typical, w.takes(d.left)))
	return true
}

// settled reports whether all requests that ended in the window began under the present limit, and
// waited behind none from before.
func (a *adaptive) settled(s *shedlimit.Sample, w *view) bool {
	d := &a.drain
	if start := a.now.Add(-s.Elapsed); !start.Before(d.cleanAt) {
		return true
	}
	// After a hang, the rate of the last window says nothing of the next.
	d.left = max(0, d.left-float64(w.completed))
	if soon := a.now.Add(w.takes(d.left)); soon.Before(d.cleanAt) {
		d.cleanAt = soon
	}
	return false
}
