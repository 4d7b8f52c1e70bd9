package shed

import (
	"math"
	"time"
)

const (
	mostCut   = 0.3 // part of those in flight that a decrease leaves at least
	longDrain = 5 * time.Second
)

// drain is the time after a decrease in which requests still end that were admitted before it. What
// they say is of the past.
type drain struct {
	until   time.Time // at least
	atMost  time.Time
	cleanAt time.Time // what is admitted under the limit ends from then on
	left    float64   // requests that were admitted before, if the oldest end first
}

// grow raises the limit if nothing speaks against it.
func (a *adaptive) grow(s *Sample, w *view) {
	a.trial.from, a.trial.full = 0, 0
	if w.nearly {
		return
	}
	free := max(0, 1-(w.waiting+w.aged)/w.room) // 1: nobody waits
	switch {
	case w.limited && a.limit < 0.9*a.queue.known && free > 0.5:
		a.limit = min(2*a.limit, 0.9*a.queue.known)
	case w.limited && a.queue.known == 0:
		a.limit += 1 + a.limit*0.5*free
	case w.limited:
		// The effect of a step is seen after a latency.
		step := 1 + a.limit*0.1*free
		a.limit += step * min(1, float64(s.Elapsed)/float64(w.typical+1))
	case a.limit < headroom*a.recent.peak && free > 0.5:
		a.limit = min(headroom*a.recent.peak, a.limit*(1+0.2*free)+1)
	}
}

// cut lowers the limit so that goal requests are in flight, or mostCut of those that are.
func (a *adaptive) cut(w *view, goal float64) {
	goal = min(w.now, max(goal, mostCut*w.now))
	scale := 1.0
	if w.limited {
		// Classes with a smaller share are what fills it, and fill no more of a lower one.
		scale = max(1, a.reach()/w.now)
	}
	a.limit = max(1, min(a.reach(), goal*scale))
	a.loan.lent = 0
	a.drain = drain{atMost: a.now.Add(longDrain + 2*w.typical)}
	a.drain.until = a.now.Add(min(2*time.Second, w.takes(w.now-goal)))
}

// drained reports whether no more are in flight than the limit allows, or they have had time enough.
func (a *adaptive) drained(s *Sample, w *view) bool {
	d := &a.drain
	over := float64(s.InFlight) > math.Round(a.limit) || a.now.Before(d.until)
	if over && a.now.Before(d.atMost) {
		return false
	}
	d.left = float64(s.InFlight)
	d.cleanAt = a.now.Add(min(w.typical, w.takes(d.left)))
	return true
}

// settled reports whether all that ended in the window was admitted under the present limit, and behind
// others that were.
func (a *adaptive) settled(s *Sample, w *view) bool {
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

// reached returns the limit if requests reached it, otherwise what was in flight.
func (a *adaptive) reached(w *view) float64 {
	if w.limited {
		return a.reach()
	}
	return min(a.reach(), w.now)
}
