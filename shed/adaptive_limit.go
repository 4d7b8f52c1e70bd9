package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	leastIdle = 6.0                    // least limit of an idle service
	mostIdle  = 20.0                   // at most, if requests are fast: 6 for a share of 30%
	headroom  = 2.0                    // limit above the most in flight, while no request waits
	peakLife  = 10 * time.Second       // see recent.peak
	idleLife  = 2 * time.Second        // halves the limit above headroom
	standing  = 450 * time.Millisecond // a queue that lasts longer is no burst
)

// recent is what the last windows saw.
type recent struct {
	peak   float64       // most in flight, with the held ones, halved each peakLife
	sheds  float64       // part of requests that is shed, over the last second
	rate   float64       // completions a second, over the last second with limited requests
	work   float64       // view.busy, over the same time
	window time.Duration // that a window lasts at most
}

// queueing has what windows have shown of queues.
type queueing struct {
	known float64       // limit at which too many waited; below it, growth is fast
	stood time.Duration // for how long too many have been waiting
	late  bool          // the window before was late, too
}

// remember updates recent and for how long a queue has stood, and lowers the limit of a service
// that has become calm.
func (a *adaptive) remember(s *shedlimit.Sample, w *view) {
	r := &a.recent
	r.peak = max(float64(s.PeakInFlight+a.held.count), r.peak*half(s.Elapsed, peakLife))
	switch {
	case !w.limited || r.rate == 0:
		r.rate, r.work = w.rate, w.busy
	case w.rate > 0:
		// One window is too short to tell.
		old := half(s.Elapsed, time.Second/2)
		r.rate = w.rate + (r.rate-w.rate)*old
		r.work = w.busy + (r.work-w.busy)*old
	}
	if !w.limited {
		// A limit from a busy time would let too many in at once.
		over := a.limit - max(headroom*r.peak, idle(w.typical))
		a.limit -= max(0, over) * (1 - half(s.Elapsed, idleLife))
	}
	switch {
	case w.completed >= 2*fewest:
		r.window = longWindow
	case w.completed < fewest && s.InFlight > 0:
		r.window = min(2*r.window, mostWindows)
	}
	a.queue.stood += s.Elapsed
	if a.waits(s, w) <= w.room {
		a.queue.stood = 0
	}
}

// goal returns how many requests should be in flight, or infinity if the number need not fall.
//
// Unless the limit bounds a queue, it is a burst until a second window has seen it. The same holds
// for lateness. If a route waits alone, no other is shed for it.
func (a *adaptive) goal(s *shedlimit.Sample, w *view) float64 {
	goal, alone := math.Inf(1), w.waitsAlone()
	stands := a.queue.stood >= standing && (w.limited || a.queue.stood > s.Elapsed)
	if a.waits(s, w) > w.room && stands && !alone {
		goal = w.busy + w.room
	}
	if w.excess > 0 && (w.limited || a.queue.late) && !alone {
		// The decrease is deep enough for a trial to tell whether it helps.
		goal = min(goal, max(w.inFlight-w.excess, w.needed))
		goal = min(goal, max(0.9*deepCut*w.inFlight, w.needed))
	}
	a.queue.late = w.excess > 0
	return goal
}

// grow raises the limit, unless answers are nearly late or held requests pile up.
func (a *adaptive) grow(s *shedlimit.Sample, w *view) {
	a.trial.from, a.trial.full = 0, 0
	if w.nearly || a.piles(w) {
		return
	}
	known := a.queue.known
	free := max(0, 1-(w.waiting+w.aged)/w.room) // 1: no request waits
	switch {
	case w.limited && a.limit < 0.9*known && free > 0.5:
		a.limit = min(2*a.limit, 0.9*known)
	case w.limited && known == 0:
		a.limit += 1 + a.limit*0.5*free
	case w.limited:
		// The effect of a step is seen after a latency.
		step := 1 + a.limit*0.1*free
		a.limit += step * min(1, float64(s.Elapsed)/float64(w.typical+1))
	case a.limit < headroom*a.recent.peak && free > 0.5:
		a.limit = min(headroom*a.recent.peak, a.limit*(1+0.2*free)+1)
	}
}

// freeze keeps the limit at what was in flight of late, and a few more, while a route waits alone.
// So no other route is shed for it, and its queue stops growing.
func (a *adaptive) freeze(w *view) {
	if a.queue.stood < standing {
		return
	}
	a.limit = min(a.limit, max(a.recent.peak, w.now)+w.room)
	a.loan.safe, a.loan.lent = min(a.loan.safe, a.limit), min(a.loan.lent, a.limit)
}

// reached returns the limit if requests reached it, otherwise the number of requests in flight.
func (a *adaptive) reached(w *view) float64 {
	if w.limited {
		return a.reach()
	}
	return min(a.reach(), w.now)
}

// idle returns the limit of an idle service: as many requests as end in a second, one after the
// other, from leastIdle to mostIdle.
func idle(typical time.Duration) float64 {
	return min(max(leastIdle, 1/typical.Seconds()), mostIdle)
}

// half returns the part that is left after a time, if each life halves it.
func half(passed, life time.Duration) float64 {
	return math.Exp2(-float64(passed) / float64(life))
}
