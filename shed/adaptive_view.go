package shed

import (
	"math"
	"slices"
	"time"
)

// view is a Sample as the adaptive algorithm sees it. Requests are counted as fractions.
type view struct {
	took      float64 // seconds
	routes    []seen
	completed int
	rate      float64 // requests a second
	inFlight  float64 // mean
	now       float64 // in flight at the end, or the mean if that is more
	limited   bool    // by the limit, not by what was offered

	busy    float64 // would be in flight without a queue
	waiting float64 // waited all the time
	room    float64 // may wait
	gaps    float64 // part of unevenWait that counts: see adaptive.gaps
	noise   float64 // mean square of service times over the square of their mean; 1 if all are the same
	overdue int     // in flight for far too long
	aged    float64 // wait by their ages: see adaptive.aged

	typical time.Duration // mean latency

	// With an SLO: see punctuality.
	excess float64 // fewer would have to wait
	needed float64 // limit that is never cut
	nearly bool    // some are late, or nearly
}

// seen is what a window says of a route.
type seen struct {
	figures
	base      *baseline
	completed int
	rate      float64 // requests a second
	wait      float64 // seconds
}

const (
	leastQueue = 4.0                   // may wait, however fast the service is
	leastWait  = 10 * time.Millisecond // nobody minds
	mostWait   = 10                    // times what requests take

	// A request may wait for that part of what requests take, and of what differences between them add.
	evenWait, unevenWait = 0.6, 0.9
)

func (a *adaptive) look(s *Sample) *view {
	w := &view{
		took:     s.Elapsed.Seconds(),
		inFlight: s.MeanInFlight,
		now:      max(1, s.MeanInFlight, float64(s.InFlight)),
		limited:  s.Shed > 0 || float64(s.PeakInFlight) >= a.reach(),
	}
	total := 0.0
	for i := range s.Routes {
		r := &s.Routes[i]
		if len(r.Latencies) == 0 {
			continue
		}
		x := seen{figures: measure(r.Latencies), base: a.base.routes[r.Route], completed: r.Completed}
		if x.base == nil {
			x.base = &baseline{figures: x.figures}
			a.base.routes[r.Route] = x.base
		}
		x.rate = float64(r.Completed) / s.Elapsed.Seconds()
		x.wait = max(0, x.low-x.base.low)
		w.completed += r.Completed
		w.rate += x.rate
		w.busy += x.rate * x.base.mean
		w.waiting += x.rate * x.wait
		total += x.rate * x.mean
		w.routes = append(w.routes, x)
	}
	if w.rate > 0 {
		w.typical = seconds(total / w.rate)
	}
	a.base.ended += w.completed
	a.base.early = a.base.ended < s.InFlight
	for _, r := range w.routes {
		r.base.gather(r, w.waiting/w.rate, a.base.early)
	}
	w.noise = w.vary()
	w.gaps = a.gaps(w)
	w.room = max(leastQueue, w.mayWait())
	w.overdue = a.overdue(s, w)
	a.expect(s, w)
	w.aged = a.aged(s)
	if s.SLO > 0 {
		w.punctuality(s)
	}
	return w
}

// mayWait returns how many requests may wait.
//
// Those of routes that do not wait, since they need nothing of what is scarce, do not count. The more the times of the
// others differ, the longer the queue that keeps a service busy, as in the formula of Pollaczek and Khinchine.
func (w *view) mayWait() float64 {
	waiting, wait, mean, square := 0.0, 0.0, 0.0, 0.0
	for _, r := range w.routes {
		part := r.rate * r.wait
		if w.waiting == 0 {
			part = r.rate * r.base.mean
		}
		waiting += part
		wait += part * r.wait
		mean += part * r.base.mean
		square += part * r.base.mean * r.base.spread
	}
	if mean == 0 {
		return 0
	}
	mean, spread := mean/waiting, square/mean
	each := min(mostWait*mean, max(leastWait.Seconds(), evenWait*mean+unevenWait*w.gaps*max(0, spread-mean)))
	if wait == 0 {
		return w.rate * each
	}
	return waiting * each / (wait / waiting)
}

// moments returns the sum of service times, and that of their squares, for each second.
func (w *view) moments() (mean, square float64) {
	for _, r := range w.routes {
		mean += r.rate * r.base.mean
		square += r.rate * r.base.mean * r.base.spread
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

// overdue returns how many have been in flight for twice as long as the slowest of any route, those that
// completed just now included: in a long queue all are old. So a dependency that hangs is seen,
// although nothing completes.
func (a *adaptive) overdue(s *Sample, w *view) int {
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
		if age.Seconds() > 2*slowest+0.2 {
			n++
		}
	}
	return n * s.InFlight / len(s.Ages)
}

// stuck reports that most requests in flight are overdue.
func (w *view) stuck(s *Sample) bool {
	return float64(w.overdue) > max(leastQueue, float64(s.InFlight)/2)
}

// punctuality judges each route by the SLO: a route is late if a tenth of its answers are.
//
// A limit takes away what waits, and nothing else. So a route whose fast requests do not wait, or that would be late
// without that, is as slow as it is, and nobody is shed for it: a client could ask for it on purpose.
func (w *view) punctuality(s *Sample) {
	onTime := 0.0
	var rest seen // routes with few, together
	var few []time.Duration
	judge := func(r *seen, p90 time.Duration) {
		over := func(slo time.Duration) float64 {
			late := (p90 - slo).Seconds()
			if late > r.wait { // no less of a queue would do
				return 0
			}
			return max(0, late)
		}
		excess := over(s.SLO)
		w.excess += r.rate * excess
		w.nearly = w.nearly || over(s.SLO*9/10) > 0
		if excess == 0 {
			onTime += r.rate * r.mean
		} else {
			w.needed += r.rate * (r.mean - r.wait)
		}
	}
	i := 0
	for at := range s.Routes {
		sample := &s.Routes[at]
		if len(sample.Latencies) == 0 {
			continue
		}
		r := &w.routes[i]
		i++
		if r.completed < fewest {
			few = append(few, sample.Latencies...)
			rest.rate += r.rate
			rest.mean += r.rate * r.mean
			rest.wait += r.rate * r.wait
			continue
		}
		judge(r, ninth(sample.Latencies, sample.Ends))
	}
	if len(few) >= fewest {
		slices.Sort(few)
		rest.mean /= rest.rate
		rest.wait /= rest.rate
		judge(&rest, ninth(few, nil))
	} else {
		onTime += rest.mean
	}
	if onTime > 0 {
		w.needed += onTime + 3*math.Sqrt(onTime) + 1 // as many come at once, at times
	}
}

// ninth returns the ninth decile of both, each of which is sorted.
func ninth(a, b []time.Duration) time.Duration {
	for above := (len(a) + len(b)) - (len(a)+len(b))*9/10 - 1; above > 0; above-- {
		if len(a) == 0 || len(b) > 0 && b[len(b)-1] > a[len(a)-1] {
			b = b[:len(b)-1]
		} else {
			a = a[:len(a)-1]
		}
	}
	switch {
	case len(a) == 0:
		return b[len(b)-1]
	case len(b) == 0:
		return a[len(a)-1]
	}
	return max(a[len(a)-1], b[len(b)-1])
}

// join adds the window after those of w. What is of the end of a window is as in that one.
func (w *view) join(next *view) {
	part := next.took / (w.took + next.took)
	mix := func(old *float64, to, part float64) { *old += (to - *old) * part }
	mix(&w.inFlight, next.inFlight, part)
	mix(&w.busy, next.busy, part)
	mix(&w.waiting, next.waiting, part)
	for i := range w.routes {
		w.routes[i].rate *= 1 - part
	}
	for _, r := range next.routes {
		i := slices.IndexFunc(w.routes, func(old seen) bool { return old.base == r.base })
		if i < 0 {
			r.rate *= part
			w.routes = append(w.routes, r)
			continue
		}
		old := &w.routes[i]
		old.completed += r.completed
		old.rate += r.rate * part
		of := float64(r.completed) / float64(old.completed)
		mix(&old.low, r.low, of)
		mix(&old.mean, r.mean, of)
		mix(&old.spread, r.spread, of)
		mix(&old.wait, r.wait, of)
		old.high = max(old.high, r.high)
	}
	w.took += next.took
	w.completed += next.completed
	w.rate = float64(w.completed) / w.took
	total := 0.0
	for _, r := range w.routes {
		total += r.rate * r.mean
	}
	if w.rate > 0 {
		w.typical = seconds(total / w.rate)
	}
	w.limited = w.limited || next.limited
	w.now, w.room, w.noise = next.now, next.room, next.noise
}

// takes returns in what time n requests complete.
func (w *view) takes(n float64) time.Duration {
	if w.rate == 0 {
		return longDrain
	}
	return min(longDrain, seconds(n/w.rate))
}

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }
