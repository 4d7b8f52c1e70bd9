package shed

import (
	"math"
	"time"
)

// adaptive is the default Algorithm. It counts the requests that wait, and keeps as many waiting as the service needs to
// stay busy.
//
// By Little's law, x requests a second that each wait w are x·w requests that wait. The wait of a route is how much its
// fast requests, a low quantile of its latencies, take longer than they took without a queue: its baseline. A queue that
// stands delays every request. A burst, a slow request and another mix of routes leave the fast ones of each route as
// they were.
//
// Baselines are learned while requests are not limited, and by trials. Nothing else raises a baseline, so a long
// overload does not become normal. TCP Vegas (Brakmo and Peterson, 1994) counts what waits likewise, CoDel (Nichols and
// Jacobson, 2012) judges a standing queue by a minimum, and BBR (Cardwell and others, 2016) tries what it believes.
//
// It decides about samples, never about a request, so floats do no harm.
type adaptive struct {
	now   time.Time
	limit float64
	state state
	after state // that follows draining and settling; steady if no trial goes on

	recent  recent
	queue   queueing
	base    baselines
	loan    loan
	clients clients
	trial   trial
	drain   drain
}

// recent is what the last windows saw.
type recent struct {
	peak   float64       // most in flight, halved each peakLife
	sheds  float64       // part of requests that is shed, over the last second
	rate   float64       // completions a second, over the last second in which requests were limited
	work   float64       // view.busy, likewise
	window time.Duration // that a window lasts at most
}

// queueing is what is known of queues.
type queueing struct {
	known float64       // limit at which too many waited; below it, growth is fast
	stood time.Duration // for how long too many have been waiting
	late  bool          // the window before was late, too
}

// clients are requests that wait for their clients.
type clients struct {
	waiting float64 // now, or of late
	crowd   bool    // they have become more, and others were shed
}

const (
	startLimit  = 100                    // of which more than mostIdle are lent
	leastIdle   = 6.0                    // limit that is always left to a service with nothing to do
	mostIdle    = 20.0                   // and to one whose requests are fast: 6 at once of a class with a share of 30%
	headroom    = 2.0                    // limit above the most in flight, while nothing waits
	peakLife    = 10 * time.Second       // see recent.peak
	idleLife    = 2 * time.Second        // in which half of the limit above headroom goes away
	standing    = 450 * time.Millisecond // a queue that is older is no burst
	muchShed    = 0.3                    // see adaptive.gaps
	fewest      = 5                      // completions of which a window can be judged
	shortWindow = 250 * time.Millisecond
	longWindow  = 2 * time.Second
	mostWindows = 16 * time.Second

	// For how long a baseline is believed while requests are limited. A probe lasts some windows, so with
	// long ones it is rare.
	believed, believedWindows = 30 * time.Second, 60
)

// newAdaptive returns the Algorithm that is used if Options.Algorithm is nil.
func newAdaptive() Algorithm {
	return &adaptive{
		limit:  mostIdle,
		recent: recent{window: longWindow},
		base:   baselines{usual: firstUsual, routes: make(map[string]*baseline)},
		loan:   loan{lent: startLimit, safe: startLimit, few: leastQueue},
	}
}

// Window makes a window longer if few requests complete.
func (a *adaptive) Window() (least, most time.Duration, completed int) {
	if wait := a.drain.cleanAt.Sub(a.now); wait > 0 && wait < shortWindow {
		return wait, wait, 1 // says nothing
	}
	if len(a.base.routes) == 0 {
		return firstWindow, a.recent.window, 20
	}
	if a.clients.crowd {
		return shortWindow, shortWindow, 1
	}
	return shortWindow, a.recent.window, 20
}

// Update returns the limit from now on.
//
// Requests that wait for their clients need nothing of the service. The algorithm does not look at them, and they get
// places of their own, as many as wait or did of late. While more and more wait and others are shed for it, windows are
// short.
func (a *adaptive) Update(s Sample) int {
	switch {
	case s.Elapsed > 0:
		a.now = s.Now
		s.InFlight -= s.AtClients
		s.PeakInFlight -= int(s.MeanAtClients)
		s.MeanInFlight -= s.MeanAtClients
		wait := max(float64(s.AtClients), s.MeanAtClients)
		a.clients.crowd = s.Shed > 0 && wait > a.clients.waiting
		a.clients.waiting = max(wait, a.clients.waiting*half(s.Elapsed, idleLife))
		shed := float64(s.Shed) / float64(max(1, s.Shed+s.Admitted))
		a.recent.sheds = shed + (a.recent.sheds-shed)*half(s.Elapsed, time.Second/2)
		w := a.look(&s)
		a.loan.few = w.room
		a.takeBack(w.aged, s.InFlight)
		a.remember(&s, w)
		a.state = a.next(a.state, &s, w)
		a.believe(w)
	case s.Limit > 0: // of the algorithm before this one
		a.limit, a.loan.lent, a.loan.safe = float64(s.Limit), 0, 0
	}
	a.limit = min(max(a.limit, 1, float64(s.MinLimit)), float64(s.MaxLimit))
	return a.inForce(s.MaxLimit)
}

// inForce returns the limit, and what is lent.
func (a *adaptive) inForce(most int) int {
	return min(int(math.Round(a.reach()))+a.places(), most)
}

// reach returns how many may be in flight that do not wait for their clients.
func (a *adaptive) reach() float64 { return max(a.limit, a.loan.lent) }

// places returns how many of the limit are for requests that wait for their clients.
func (a *adaptive) places() int { return int(math.Round(a.clients.waiting)) }

// remember takes from a window what needs no judgement.
func (a *adaptive) remember(s *Sample, w *view) {
	a.recent.peak = max(float64(s.PeakInFlight), a.recent.peak*half(s.Elapsed, peakLife))
	switch {
	case !w.limited || a.recent.rate == 0:
		a.recent.rate, a.recent.work = w.rate, w.busy
	case w.rate > 0:
		// Completions of one window vary with what happened to complete in it.
		old := half(s.Elapsed, time.Second/2)
		a.recent.rate = w.rate + (a.recent.rate-w.rate)*old
		a.recent.work = w.busy + (a.recent.work-w.busy)*old
	}
	if !w.limited {
		// What is not needed for long would let in too many at once.
		over := a.limit - max(headroom*a.recent.peak, idle(w.typical))
		a.limit -= max(0, over) * (1 - half(s.Elapsed, idleLife))
	}
	switch {
	case w.completed >= 2*fewest:
		a.recent.window = longWindow
	case w.completed < fewest && s.InFlight > 0:
		a.recent.window = min(2*a.recent.window, mostWindows)
	}
	a.queue.stood += s.Elapsed
	if a.waits(s, w) <= w.room {
		a.queue.stood = 0
	}
}

// idle returns the limit that is left to a service with nothing to do: so many requests that they would end within a
// second one after the other, from leastIdle to mostIdle.
func idle(typical time.Duration) float64 {
	return min(max(leastIdle, 1/typical.Seconds()), mostIdle)
}

// half returns what is left after a time of which each life takes half.
func half(passed, life time.Duration) float64 {
	return math.Exp2(-float64(passed) / float64(life))
}

// goal returns how many should be in flight, or infinity if no fewer than are.
//
// A queue that the limit did not bound is a burst until a second window has seen it. So is lateness.
func (a *adaptive) goal(s *Sample, w *view) float64 {
	goal := math.Inf(1)
	if a.waits(s, w) > w.room && a.queue.stood >= standing && (w.limited || a.queue.stood > s.Elapsed) {
		goal = w.busy + w.room
	}
	if w.excess > 0 && (w.limited || a.queue.late) {
		// So many fewer that a trial can tell whether that helps.
		goal = min(goal, max(w.inFlight-w.excess, w.needed))
		goal = min(goal, max(0.9*deepCut*w.inFlight, w.needed))
	}
	a.queue.late = w.excess > 0
	return goal
}

// unsure reports, after a window that took so long, that baselines have to be tried: they do not come from a time
// without a queue, or from long ago.
func (a *adaptive) unsure(took time.Duration) bool {
	return a.base.sure.IsZero() || a.now.Sub(a.base.sure) > max(believed, believedWindows*took)
}

// gaps returns which part of unevenWait counts. Without a long queue, slots are empty after a run of slow requests, until
// others arrive. The more are shed, the sooner they do, and of many slots few become empty at once.
func (a *adaptive) gaps(w *view) float64 {
	return 1 + (1/math.Sqrt(max(1, w.busy))-1)*min(1, a.recent.sheds/muchShed)
}

// waits returns how many wait. Before the first decrease the limit is a guess. In a window that is long enough for a queue
// to stand, those in flight that are too old count: they would complete too late to show that it is too high.
func (a *adaptive) waits(s *Sample, w *view) float64 {
	if w.limited && a.queue.known == 0 && s.Elapsed >= standing {
		return w.waiting + w.aged
	}
	return w.waiting
}
