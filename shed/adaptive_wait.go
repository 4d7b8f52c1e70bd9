package shed

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	leastQueue = 4.0                   // requests that may wait, however fast the service is
	leastWait  = 10 * time.Millisecond // a wait that never matters
	mostWait   = 10                    // times what requests take
	muchShed   = 0.3                   // see adaptive.gaps

	// A request may wait for evenWait of the mean time of requests, and for unevenWait of what
	// differences between them add.
	evenWait, unevenWait = 0.6, 0.9

	old = 1.3 // times baselines.usual: an older request may wait

	aloneAtMost = 0.25 // part of the waiting requests that waits behind others: see waitsAlone
)

// waits returns how many requests wait. Before the first decrease the limit is a guess. In a
// window that is long enough for a queue to stand, requests in flight that are too old count as
// well: their completions would show too late that the limit is too high.
func (a *adaptive) waits(s *shedlimit.Sample, w *view) float64 {
	if w.limited && a.queue.known == 0 && s.Elapsed >= standing {
		return w.waiting + w.aged
	}
	return w.waiting
}

// behind returns how many requests of the route waited behind others. In a queue that all share,
// first come, first served, no request is overtaken before it is served. So a request has waited in
// it at most until it was overtaken. inFlight is the mean of all routes. It bounds the sum of a few
// long waits that end in one window.
func (x *seen) behind(r *shedlimit.RouteSample, inFlight float64) float64 {
	if x.mean == 0 {
		return 0
	}
	wait := x.wait
	if r.UntilOvertaken > 0 {
		wait = min(wait, r.UntilOvertaken.Seconds()/float64(r.Completed))
	}
	return min(x.rate, inFlight/x.mean) * wait
}

// waitsAlone reports that requests wait for what most others do not need: requests that began later
// completed meanwhile. A route may have a queue of its own, or may have become slow. A lower limit
// would shed the others for it.
func (w *view) waitsAlone() bool { return w.behind <= min(w.room, w.waiting*aloneAtMost) }

// mayWait returns how many requests may wait.
//
// Routes whose requests never wait do not use the scarce resource; they are not counted. The more
// the times of the other routes differ, the longer is the queue that keeps a service busy, as in
// the formula of Pollaczek and Khinchine.
func (w *view) mayWait() float64 {
	waiting, wait, mean, square := 0.0, 0.0, 0.0, 0.0
	for _, r := range w.routes {
		part := r.rate * r.wait
		if w.waiting == 0 {
			part = r.rate * r.usual().mean
		}
		waiting += part
		wait += part * r.wait
		mean += part * r.usual().mean
		square += part * r.usual().mean * r.usual().spread
	}
	if mean == 0 {
		return 0
	}
	mean, spread := mean/waiting, square/mean
	each := min(mostWait*mean, max(leastWait.Seconds(),
		evenWait*mean+unevenWait*w.gaps*max(0, spread-mean)))
	if wait == 0 {
		return w.rate * each
	}
	return waiting * each / (wait / waiting)
}

// gaps returns which part of unevenWait counts. Without a long queue, slots are empty after a run
// of slow requests, until others arrive. The more requests are shed, the sooner others arrive; and
// of many slots, few become empty at once.
func (a *adaptive) gaps(w *view) float64 {
	return 1 + (1/math.Sqrt(max(1, w.busy))-1)*min(1, a.recent.sheds/muchShed)
}

// moments returns the sum of service times, and the sum of their squares, for each second.
func (w *view) moments() (mean, square float64) {
	for _, r := range w.routes {
		mean += r.rate * r.usual().mean
		square += r.rate * r.usual().mean * r.usual().spread
	}
	return mean, square
}

// vary returns view.noise.
func (w *view) vary() float64 {
	mean, square := w.moments()
	if mean == 0 {
		return 1
	}
	return min(max(1, square*w.rate/(mean*mean)), 60)
}

// aged returns how many requests wait, by their ages when a request last completed: they are older
// than usual, and no request that began later has completed. A request that others have overtaken
// is slow, and does not wait.
func (a *adaptive) aged(s *shedlimit.Sample) float64 {
	if len(s.Ages) == 0 {
		return 0
	}
	n := older(s.Ages, seconds(old*a.base.usual)+min(s.Quiet, mostQuiet))
	if s.Overtaken > 0 {
		n -= older(s.Ages, s.Overtaken)
	}
	return float64(max(0, n)*s.InFlight) / float64(len(s.Ages))
}

// older returns how many ages, the longest first, are above than.
func older(ages []time.Duration, than time.Duration) int {
	n, _ := slices.BinarySearchFunc(ages, than, func(age, t time.Duration) int {
		return cmp.Compare(t, age)
	})
	return n
}

// overdue returns how many requests have been in flight for twice as long as the slowest request
// of any route. Those that have just completed count among the slowest: in a long queue all are
// old. So a hang shows although nothing completes. A request that others have overtaken is slow,
// and shows no hang.
func (a *adaptive) overdue(s *shedlimit.Sample, w *view) int {
	if len(a.base.routes) == 0 || len(s.Ages) == 0 {
		return 0
	}
	slowest := 0.0
	for _, b := range a.base.routes {
		slowest = max(slowest, b.high)
	}
	for _, r := range w.routes {
		slowest = max(slowest, r.high)
	}
	n := 0
	for _, age := range s.Ages {
		if age.Seconds() > 2*slowest+0.2 && (s.Overtaken == 0 || age <= s.Overtaken) {
			n++
		}
	}
	return n * s.InFlight / len(s.Ages)
}

// stuck reports that most requests in flight are overdue.
func (w *view) stuck(s *shedlimit.Sample) bool {
	return float64(w.overdue) > max(leastQueue, float64(s.InFlight)/2)
}
