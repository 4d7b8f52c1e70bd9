// Package adaptive finds how many requests a service can answer at once, by how long they take. It
// knows samples of windows, and nothing of who asks.
package adaptive

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// Algorithm finds a limit. It counts the requests that wait, and keeps as many waiting as the
// service needs to stay busy.
//
// By Little's law, x requests a second that each wait w are x·w requests that wait. The wait of a
// route is how much longer its fast requests take than without a queue. The fast ones are a low
// quantile of its latencies; the time without a queue is its baseline. A standing queue delays
// every request. A burst, a slow request or another mix of routes leaves the fast requests as
// they were.
//
// An example: fast requests take 30 ms, their baseline is 20 ms, and 400 complete a second. So
// 400·0.010 = 4 requests wait, and 400·0.020 = 8 are served. If 5 may wait, the limit grows. If
// only 2 may, it falls to 8 + 2 = 10.
//
// Baselines are learned while requests are not limited, and by trials. Nothing else raises a
// baseline, so a long overload does not become normal. TCP Vegas (Brakmo and Peterson, 1994) counts
// waiting packets in the same way, CoDel (Nichols and Jacobson, 2012) judges a standing queue by a
// minimum, and BBR (Cardwell and others, 2016) tests its estimates by trials.
//
// It decides about samples, never about a request, so floats do no harm. It is not safe for
// concurrent use: the shedder calls it under a lock.
type Algorithm struct {
	now   time.Time
	limit float64
	state state
	after state // follows draining and settling; steady if no trial is under way

	recent  recent
	queue   queueing
	base    baselines
	loan    loan
	clients clients
	held    held
	trial   trial
	drain   drain
}

// clients are requests that wait for their clients.
type clients struct {
	waiting float64 // now, or of late
	crowd   bool    // their number rises, and others are shed
}

const (
	startLimit  = 100 // the first limit: mostIdle, and the rest as a loan
	fewest      = 5   // completions without which a window is not judged
	shortWindow = 250 * time.Millisecond
	longWindow  = 2 * time.Second
	mostWindows = 16 * time.Second
)

// New returns an Algorithm with a first limit of 100.
func New() *Algorithm {
	return &Algorithm{
		limit:  mostIdle,
		recent: recent{window: longWindow},
		base:   baselines{usual: firstUsual, routes: make(map[string]*baseline)},
		held:   held{most: mostHeld, bound: mostHeld},
		loan:   loan{lent: startLimit, safe: startLimit, few: leastQueue},
	}
}

// Window makes a window longer if few requests complete.
func (a *Algorithm) Window() (least, most time.Duration, completed int) {
	if wait := a.drain.cleanAt.Sub(a.now); wait > 0 && wait < shortWindow {
		return wait, wait, 1 // until requests from before a decrease have ended
	}
	if !a.base.known() {
		return firstWindow, a.recent.window, 20
	}
	if a.clients.crowd {
		return shortWindow, shortWindow, 1
	}
	return shortWindow, a.recent.window, 20
}

// Update returns the limit from now on.
//
// Requests that wait for their clients use nothing of the service. They do not count, and get
// places of their own, as many as wait or waited of late. While their number rises and others are
// shed, windows are short.
func (a *Algorithm) Update(s shedlimit.Sample) int {
	a.held.bind(&s)
	switch {
	case s.Elapsed > 0:
		a.now = s.Now
		a.leaveOutClients(&s)
		a.held.leaveOut(&s, a.base.known())
		shed := float64(s.Shed) / float64(max(1, s.Shed+s.Admitted))
		a.recent.sheds = shed + (a.recent.sheds-shed)*Half(s.Elapsed, time.Second/2)
		w := newView(&s, &a.base, a.reach(), a.recent.sheds)
		a.loan.few = w.room
		a.held.trust(&s, w, a.base.usual)
		a.loan.takeBack(w.aged, s.InFlight)
		a.remember(&s, w)
		a.state = a.next(a.state, &s, w)
		a.believe(w)
	case s.Limit > 0: // of the options before
		a.limit, a.loan.lent, a.loan.safe = float64(s.Limit), 0, 0
	}
	a.limit = min(max(a.limit, 1, float64(s.MinLimit)), float64(s.MaxLimit))
	return a.inForce(s.MaxLimit)
}

// leaveOutClients takes the requests that wait for their clients out of s.
func (a *Algorithm) leaveOutClients(s *shedlimit.Sample) {
	s.InFlight -= s.AtClients
	s.PeakInFlight -= int(s.MeanAtClients)
	s.MeanInFlight -= s.MeanAtClients
	wait := max(float64(s.AtClients), s.MeanAtClients)
	a.clients.crowd = s.Shed > 0 && wait > a.clients.waiting
	a.clients.waiting = max(wait, a.clients.waiting*Half(s.Elapsed, idleLife))
}

// GlanceFrom says when the shedder calls Glance before it decides a request: if at least inFlight
// are in flight, or too many for this request to enter. The oldest must also have been in flight
// for at least age.
func (a *Algorithm) GlanceFrom() (inFlight int, age time.Duration) {
	inFlight = int(math.Round(a.limit)) + a.Places()
	lends := !a.base.known() || a.limit < max(a.loan.safe, a.loan.lent)
	if lends && !a.lowered() {
		return inFlight, 0
	}
	if a.held.count > 0 {
		return inFlight, 0
	}
	return inFlight, min(a.base.quietFor(), a.held.from())
}

// Glance returns the limit from now on. s is of this instant, and has nothing of the window.
func (a *Algorithm) Glance(s shedlimit.Sample) int {
	s.InFlight -= s.AtClients
	a.held.hold(&s, a.base.known())
	waiting := a.base.aged(&s)
	a.loan.takeBack(waiting, s.InFlight)
	free := waiting < 1 && !a.loan.doubt && !a.lowered()
	switch {
	case (!a.base.known() || a.base.early && free) && len(s.Ages) > 0:
		times := min(firstTimes, 1+s.Ages[0].Seconds()/firstGrowth.Seconds())
		a.loan.lent = max(a.loan.lent, startLimit*times)
	case free:
		a.loan.lent = max(a.loan.lent, a.loan.safe)
	}
	if a.knocks(s.Quiet) {
		most := max(a.loan.safe, knocked*a.limit)
		a.loan.lent = max(a.loan.lent, min(float64(s.InFlight+1), most))
	}
	return a.inForce(s.MaxLimit)
}

// knocks reports that nothing has completed for so long that the requests in flight hang, or are
// slow. One more request per glance shows which: if the service answers, it completes and overtakes
// the others.
func (a *Algorithm) knocks(quiet time.Duration) bool {
	if !a.base.known() || a.after != steady || a.state == draining {
		return false
	}
	return quiet > a.base.quietFor()
}

// believe updates what is safe, and ends a loan that is not needed.
func (a *Algorithm) believe(w *view) {
	switch {
	case a.lowered() && a.state != stuck: // stuck decides nothing
		a.loan.safe = min(a.loan.safe, a.limit)
	case w.limited:
		a.loan.safe = max(a.loan.safe, a.limit)
	case w.waiting+w.aged <= leastQueue:
		a.loan.safe = max(a.loan.safe, w.inFlight)
		a.loan.doubt = false
	}
	if !w.limited && w.completed > 0 && a.limit >= min(a.loan.lent, headroom*a.recent.peak) {
		a.loan.lent = 0
	}
}

// LeastOvertaking returns how long a request must take, at least, to overtake others. Faster
// requests may not need the scarce resource, so they prove nothing. Until it is known what is usual,
// all requests overtake others.
func (a *Algorithm) LeastOvertaking() time.Duration {
	if !a.base.known() {
		return 0
	}
	return seconds(notable * a.base.usual)
}

// inForce returns the limit with the loan and with Places.
func (a *Algorithm) inForce(most int) int {
	return min(int(math.Round(a.reach()))+a.Places(), most)
}

// reach returns how many requests without places of their own may be in flight.
func (a *Algorithm) reach() float64 { return max(a.limit, a.loan.lent) }

// Places returns how many places of the limit are for requests that wait for their clients or are
// held. These do not need what is scarce, so any class may fill their places.
func (a *Algorithm) Places() int {
	return int(math.Round(a.clients.waiting)) + a.held.places(a.reach())
}

// state says how the Algorithm takes a window.
type state uint8

const (
	steady   state = iota // learns, raises the limit, or begins a decrease
	draining              // waits until requests from before a decrease have ended
	settling              // waits until those that began behind them have ended
	trying                // compares the time after a deep decrease with that before
	probing               // the same after a decrease that is made to learn
	stuck                 // waits while most requests in flight hang
)

func (s state) String() string {
	return [...]string{"steady", "draining", "settling", "trying", "probing", "stuck"}[s]
}

// next returns the state that follows the state at. Only Update writes a.state.
//
//	from      when                                                to
//	any       more than half of the requests in flight hang       stuck
//	steady    many wait, or are late: the limit falls by much     draining, then trying
//	          the limit falls by little                           draining, then steady
//	          requests are limited, and baselines are old         draining, then probing
//	draining  the limit is kept again, or time is up              settling
//	settling  a window has none that began before                 a.after
//	trying    the decrease helped, or the load has fallen         steady
//	          it cost throughput, and is undone                   settling, then steady
//	probing   as trying
//	stuck     as draining, once requests no longer hang           settling, then steady
func (a *Algorithm) next(at state, s *shedlimit.Sample, w *view) state {
	if w.stuck(s) {
		at = stuck
	}
	switch at {
	case draining:
		return a.draining(s, w)
	case settling:
		return a.settling(s, w)
	case trying:
		return a.trying(s, w)
	case probing:
		return a.probing(s, w)
	case stuck:
		return a.stuck(s, w)
	}
	return a.steady(s, w)
}

// steady learns and raises the limit, or begins a decrease.
func (a *Algorithm) steady(s *shedlimit.Sample, w *view) state {
	if w.completed < fewest {
		if w.completed > 0 && !w.limited && w.waiting <= w.room {
			a.learn(w) // little, as the weight of few is small
		}
		return steady
	}
	switch goal := a.goal(s, w); {
	case goal < w.inFlight:
		return a.try(w, goal)
	case a.waits(s, w) > w.room && w.waitsAlone():
		a.freeze(w)
	case a.waits(s, w) > w.room:
		// Wait until the queue stands. In a window that long, it must not grow meanwhile.
		if !w.limited && a.queue.stood >= standing {
			a.limit = min(a.limit, w.now)
		}
	case w.limited && a.base.unsure(a.now, s.Elapsed) && a.queue.known > 0 && w.inFlight >= 2:
		return a.probe(w)
	default:
		a.learn(w)
		a.grow(s, w)
	}
	return steady
}

// draining waits until requests from before a decrease have ended.
func (a *Algorithm) draining(s *shedlimit.Sample, w *view) state {
	if a.drain.over(s, w, a.limit, a.now) {
		return settling
	}
	return draining
}

// settling waits until those that began behind them have ended. Then the window is one of a.after.
func (a *Algorithm) settling(s *shedlimit.Sample, w *view) state {
	if a.drain.settled(s, w, a.now) {
		return a.next(a.after, s, w)
	}
	return settling
}

// trying judges a decrease that was made to shorten a queue.
func (a *Algorithm) trying(_ *shedlimit.Sample, w *view) state {
	verdict, latency := a.trial.judge(a.now, w)
	if verdict == early {
		return trying
	}
	a.after = steady
	switch {
	case verdict == untried:
	case latency > 1.1:
		// The service has become slower meanwhile. If the trial cost throughput, undo it: the next
		// window begins another one.
		if verdict == starved {
			a.limit = a.trial.limit
		}
	case verdict == starved:
		return a.undo()
	default:
		a.base.sure = a.now
	}
	return steady
}

// probing judges a decrease that was made to learn how many wait.
func (a *Algorithm) probing(_ *shedlimit.Sample, w *view) state {
	verdict, latency := a.trial.judge(a.now, w)
	if verdict == early {
		return probing
	}
	a.after = steady
	switch verdict {
	case untried:
		a.limit = a.trial.limit
	case starved:
		return a.undo()
	default:
		pace := a.trial.seen.pace()
		for _, r := range a.trial.seen.routes {
			r.base.lower(r)
		}
		// While latency falls, a queue may be left, unless the baselines hold.
		if a.trial.confirms || latency > 0.9 || pace > 0.85 && pace < 1.1 || a.limit < 4 {
			a.base.sure = a.now
			a.limit = a.trial.limit
		}
	}
	return steady
}

// stuck keeps the limit at the requests that hang and what the others need, until fewer hang.
func (a *Algorithm) stuck(s *shedlimit.Sample, w *view) state {
	switch {
	case w.stuck(s):
		// A lower limit helps no request in flight. A higher one lets more hang. A decrease that
		// the beginning of the hang caused is undone.
		a.limit = min(max(a.limit, a.trial.from), float64(w.overdue)+w.busy+w.room)
		a.after = steady
		a.drain = drain{atMost: a.now.Add(longDrain)}
	case a.drain.over(s, w, a.limit, a.now):
		return settling
	}
	return stuck
}

// lowered reports that requests from before a decrease may be in flight, or that a trial is under
// way.
func (a *Algorithm) lowered() bool {
	return a.after != steady || a.state == draining || a.state == stuck
}
