package adaptive

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
func (a *Algorithm) remember(s *shedlimit.Sample, w *view) {
	r := &a.recent
	r.peak = max(float64(s.PeakInFlight+a.held.count), r.peak*Half(s.Elapsed, peakLife))
	switch {
	case !w.limited || r.rate == 0:
		r.rate, r.work = w.rate, w.busy
	case w.rate > 0:
		// One window is too short to tell.
		old := Half(s.Elapsed, time.Second/2)
		r.rate = w.rate + (r.rate-w.rate)*old
		r.work = w.busy + (r.work-w.busy)*old
	}
	if !w.limited {
		// A limit from a busy time would let too many in at once.
		over := a.limit - max(headroom*r.peak, idle(w.typical))
		a.limit -= max(0, over) * (1 - Half(s.Elapsed, idleLife))
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

// learn moves the baselines towards a window.
func (a *Algorithm) learn(w *view) {
	switch {
	case !w.limited:
		a.base.learn(w, a.now)
	case a.base.recover(w):
		a.recent.rate, a.recent.work = 0, 0 // of a slower service
	}
}

// goal returns how many requests should be in flight, or infinity if the number need not fall.
//
// Unless the limit bounds a queue, it is a burst until a second window has seen it. The same holds
// for lateness. If a route waits alone, no other is shed for it.
func (a *Algorithm) goal(s *shedlimit.Sample, w *view) float64 {
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
func (a *Algorithm) grow(s *shedlimit.Sample, w *view) {
	a.trial.from, a.trial.full = 0, 0
	if w.nearly || a.held.piles(w, a.reach()) {
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
func (a *Algorithm) freeze(w *view) {
	if a.queue.stood < standing {
		return
	}
	a.limit = min(a.limit, max(a.recent.peak, w.now)+w.room)
	a.loan.safe, a.loan.lent = min(a.loan.safe, a.limit), min(a.loan.lent, a.limit)
}

// reached returns the limit if requests reached it, otherwise the number of requests in flight.
func (a *Algorithm) reached(w *view) float64 {
	if w.limited {
		return a.reach()
	}
	return min(a.reach(), w.now)
}

// try lowers the limit because too many wait.
func (a *Algorithm) try(w *view, goal float64) state {
	a.base.calm = 0
	a.queue.known = a.limit
	return a.begin(trying, w, goal)
}

// probe lowers the limit to learn how many wait.
func (a *Algorithm) probe(w *view) state {
	return a.begin(probing, w, min(w.busy, w.inFlight/2))
}

// begin starts a decrease. If it is deep, the state after follows.
func (a *Algorithm) begin(after state, w *view, goal float64) state {
	a.after = steady
	if max(goal, mostCut*w.now) < deepCut*w.inFlight {
		a.after = after
	}
	a.trial = trial{
		confirms: after == probing && !a.base.sure.IsZero(),
		ends:     a.now.Add(longWait + 4*w.typical),
		from:     max(a.trial.from, a.reached(w)),
		full:     max(a.trial.full, min(w.rate, a.recent.rate)),
		limit:    a.reached(w),
		inFlight: w.inFlight, rate: min(w.rate, a.recent.rate), work: min(w.busy, a.recent.work),
		low: make(map[*baseline]float64, len(w.routes)),
	}
	for _, r := range w.routes {
		a.trial.low[r.base] = r.low
	}
	a.cut(w, goal)
	return draining
}

// cut lowers the limit to what goal requests in flight need, and to no less than mostCut of those
// that are in flight.
func (a *Algorithm) cut(w *view, goal float64) {
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

// undo raises the limit again after a decrease that left the service with too few requests, and
// learns how long they take.
func (a *Algorithm) undo() state {
	w := a.trial.seen
	for _, r := range w.routes {
		r.base.set(r)
	}
	a.base.sure = a.now
	a.limit = max(a.trial.limit, min(a.trial.from, a.needs(w)))
	a.trial.from, a.trial.full = 0, 0
	a.drain.left, a.drain.cleanAt = w.now, a.now.Add(w.typical)
	return settling
}

// needs returns the limit with which as many requests complete as before the decreases, if they
// take as long as now.
func (a *Algorithm) needs(w *view) float64 {
	t := &a.trial
	work, wait := 0.0, 0.0
	for _, r := range w.routes {
		work += r.rate * r.base.mean
		wait += r.rate * (evenWait*r.base.mean +
			unevenWait*w.gaps*max(0, r.base.spread-r.base.mean))
	}
	if w.rate == 0 {
		return 0
	}
	return a.trial.full / w.rate * (work + wait) * max(1, t.limit/t.inFlight)
}

// waits returns how many requests wait. Before the first decrease the limit is a guess. In a
// window that is long enough for a queue to stand, requests in flight that are too old count as
// well: their completions would show too late that the limit is too high.
func (a *Algorithm) waits(s *shedlimit.Sample, w *view) float64 {
	if w.limited && a.queue.known == 0 && s.Elapsed >= standing {
		return w.waiting + w.aged
	}
	return w.waiting
}

// idle returns the limit of an idle service: as many requests as end in a second, one after the
// other, from leastIdle to mostIdle.
func idle(typical time.Duration) float64 {
	return min(max(leastIdle, 1/typical.Seconds()), mostIdle)
}

// Half returns the part that is left after a time, if each life halves it.
func Half(passed, life time.Duration) float64 {
	return math.Exp2(-float64(passed) / float64(life))
}
