package shed

import (
	"math"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// adaptive finds a limit. It counts the requests that wait, and keeps as many waiting as the
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
// It decides about samples, never about a request, so floats do no harm. Its files:
//
//	adaptive_state.go     the states, and what a window does in each: begin here
//	adaptive_view.go      a Sample as counts of requests
//	adaptive_wait.go      how many requests wait, and how many may
//	adaptive_slo.go       how many are late
//	adaptive_limit.go     growth, and the number that should be in flight
//	adaptive_drain.go     a decrease
//	adaptive_trial.go     what a decrease has shown
//	adaptive_baseline.go  what requests take without a queue
//	adaptive_mixture.go   how many of them are fast and how many slow
//	adaptive_held.go      requests with places of their own
//	adaptive_loan.go      a higher limit between two windows
type adaptive struct {
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

// newAdaptive returns the algorithm that is used if Options.Limit is 0.
func newAdaptive() *adaptive {
	return &adaptive{
		limit:  mostIdle,
		recent: recent{window: longWindow},
		base:   baselines{usual: firstUsual, routes: make(map[string]*baseline)},
		held:   held{most: mostHeld, bound: mostHeld},
		loan:   loan{lent: startLimit, safe: startLimit, few: leastQueue},
	}
}

// Window makes a window longer if few requests complete.
func (a *adaptive) Window() (least, most time.Duration, completed int) {
	if wait := a.drain.cleanAt.Sub(a.now); wait > 0 && wait < shortWindow {
		return wait, wait, 1 // until requests from before a decrease have ended
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
// Requests that wait for their clients use nothing of the service. They do not count, and get
// places of their own, as many as wait or waited of late. While their number rises and others are
// shed, windows are short.
func (a *adaptive) Update(s shedlimit.Sample) int {
	a.held.bind(&s)
	switch {
	case s.Elapsed > 0:
		a.now = s.Now
		a.leaveOutClients(&s)
		a.leaveOutHeld(&s)
		shed := float64(s.Shed) / float64(max(1, s.Shed+s.Admitted))
		a.recent.sheds = shed + (a.recent.sheds-shed)*half(s.Elapsed, time.Second/2)
		w := a.look(&s)
		a.loan.few = w.room
		a.trust(&s, w)
		a.takeBack(w.aged, s.InFlight)
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
func (a *adaptive) leaveOutClients(s *shedlimit.Sample) {
	s.InFlight -= s.AtClients
	s.PeakInFlight -= int(s.MeanAtClients)
	s.MeanInFlight -= s.MeanAtClients
	wait := max(float64(s.AtClients), s.MeanAtClients)
	a.clients.crowd = s.Shed > 0 && wait > a.clients.waiting
	a.clients.waiting = max(wait, a.clients.waiting*half(s.Elapsed, idleLife))
}

// inForce returns the limit with the loan and with the places of their own.
func (a *adaptive) inForce(most int) int {
	return min(int(math.Round(a.reach()))+a.places(), most)
}

// reach returns how many requests without places of their own may be in flight.
func (a *adaptive) reach() float64 { return max(a.limit, a.loan.lent) }

// places implements glancer: these places are for requests that wait for their clients or are held.
func (a *adaptive) places() int {
	return int(math.Round(a.clients.waiting)) + a.held.places(a.reach())
}
