package adaptive

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	leastQueue = 4.0                   // requests that may wait, however fast the service is
	leastWait  = 10 * time.Millisecond // a wait that never matters
	mostWait   = 10                    // times what requests take
	muchShed   = 0.3                   // see view.gapsAt

	// A request may wait for evenWait of the mean time of requests, and for unevenWait of what
	// differences between them add.
	evenWait, unevenWait = 0.6, 0.9

	old = 1.3 // times baselines.usual: an older request may wait

	aloneAtMost = 0.25 // part of the waiting requests that waits behind others: see waitsAlone
)

// view is a Sample as the Algorithm sees it. Requests are counted as fractions.
type view struct {
	took      float64 // seconds
	routes    []seen
	completed int
	rate      float64 // requests a second
	inFlight  float64 // mean
	now       float64 // in flight at the end, or the mean if that is more
	limited   bool    // by the limit, and not by the load

	busy    float64 // would be in flight without a queue
	waiting float64 // waited, on average
	behind  float64 // of them, waited for what other requests need: see waitsAlone
	room    float64 // may wait
	gaps    float64 // part of unevenWait that counts: see view.gapsAt
	noise   float64 // mean square of service times over the square of their mean; at least 1
	overdue int     // have been in flight for far too long
	aged    float64 // wait by their ages: see baselines.aged

	typical time.Duration // mean latency

	// With an SLO: see punctuality.
	excess float64 // requests that should not wait
	needed float64 // no decrease goes below this limit
	nearly bool    // a route is nearly late, and would not be without its wait
}

// seen is what a window says of a route.
type seen struct {
	figures
	mixture   mixture
	base      *baseline
	like      *figures // see baseline.like
	completed int
	rate      float64 // requests a second
	wait      float64 // seconds
}

// usual returns the figures that those of the window are compared with.
func (x *seen) usual() *figures {
	if x.like != nil {
		return x.like
	}
	return &x.base.figures
}

// newView returns the view of s, compared with base, of which it makes baselines of new routes.
// reach is how many requests may be in flight. sheds is the part of requests that is shed.
func newView(s *shedlimit.Sample, base *baselines, reach, sheds float64) *view {
	w := &view{
		took:     s.Elapsed.Seconds(),
		inFlight: s.MeanInFlight,
		now:      max(1, s.MeanInFlight, float64(s.InFlight)),
		limited:  s.Shed > 0 || float64(s.PeakInFlight) >= reach,
	}
	total := 0.0
	for i := range s.Routes {
		r := &s.Routes[i]
		if len(r.Latencies) == 0 {
			continue
		}
		x := seen{
			figures: measure(r.Latencies), base: base.routes[r.Route], completed: r.Completed,
		}
		if x.base == nil {
			x.base = &baseline{figures: x.figures}
			base.routes[r.Route] = x.base
		}
		x.rate = float64(r.Completed) / s.Elapsed.Seconds()
		for _, d := range r.Latencies {
			x.mixture.add(d, x.rate/float64(len(r.Latencies)))
		}
		x.like = x.base.like(x.rate, x.low, s.Shed > 0)
		x.wait = max(0, x.low-x.usual().low)
		w.completed += r.Completed
		w.rate += x.rate
		w.busy += x.rate * x.usual().mean
		w.waiting += x.rate * x.wait
		w.behind += x.behind(r, s.MeanInFlight)
		total += x.rate * x.mean
		w.routes = append(w.routes, x)
	}
	if w.rate > 0 {
		w.typical = seconds(total / w.rate)
	}
	base.ended += w.completed
	base.early = base.ended < s.InFlight
	for _, r := range w.routes {
		r.base.gather(r, w.waiting/w.rate, base.early)
	}
	w.noise = w.vary()
	w.gaps = w.gapsAt(sheds)
	w.room = max(leastQueue, w.mayWait())
	w.overdue = base.overdue(s, w)
	base.expect(s, w)
	w.aged = base.aged(s)
	if s.SLO > 0 {
		w.punctuality(s)
	}
	return w
}

// join adds the window that follows those of w. Numbers at the end of a window are those of next.
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
		old.like = r.like
		old.mixture.learn(&r.mixture, of)
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

// pace returns how many times as long fast requests take as their baselines say.
func (w *view) pace() float64 {
	low, base := 0.0, 0.0
	for _, r := range w.routes {
		low += r.rate * r.low
		base += r.rate * r.usual().low
	}
	if base == 0 {
		return 1
	}
	return low / base
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

// gapsAt returns view.gaps. Without a long queue, slots are empty after a run
// of slow requests, until others arrive. The more requests are shed, the sooner others arrive; and
// of many slots, few become empty at once.
func (w *view) gapsAt(sheds float64) float64 {
	return 1 + (1/math.Sqrt(max(1, w.busy))-1)*min(1, sheds/muchShed)
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

// stuck reports that most requests in flight are overdue.
func (w *view) stuck(s *shedlimit.Sample) bool {
	return float64(w.overdue) > max(leastQueue, float64(s.InFlight)/2)
}

// punctuality judges each route by the SLO: a route is late if a tenth of its answers are. It sets
// what goal and grow read: w.excess is by how much the requests in flight should fall, w.needed
// bounds the fall, and w.nearly keeps the limit from growing.
//
// A lower limit shortens queues, and nothing else. seen.wait estimates how long requests of a route
// wait in queues: 10 ms if its fast ones take 30 ms, and 20 ms in its baseline. If a route would be
// late even without that wait, no request is shed for it. Otherwise a client could have others shed
// by asking for slow work on purpose.
func (w *view) punctuality(s *shedlimit.Sample) {
	withoutExcess := 0.0    // mean number of requests in flight on routes that have no excess
	var rest seen           // routes with few completions, together
	var few []time.Duration // their latencies; no Ends, which are of requests that failed or left
	judge := func(r *seen, p90 time.Duration) {
		over := func(slo time.Duration) float64 {
			late := (p90 - slo).Seconds()
			if late > r.wait { // it would be late without a queue
				return 0
			}
			return max(0, late)
		}
		excess := over(s.SLO)
		w.excess += r.rate * excess
		w.nearly = w.nearly || over(s.SLO*9/10) > 0
		if excess == 0 {
			withoutExcess += r.rate * r.mean
		} else {
			w.needed += r.rate * (r.mean - r.wait) // in flight if none waited
		}
	}
	i := 0 // in w.routes, which has only the routes with latencies
	for at := range s.Routes {
		sample := &s.Routes[at]
		if len(sample.Latencies) == 0 {
			continue
		}
		r := &w.routes[i]
		i++
		if r.completed < fewest {
			few = append(few, sample.Latencies...)
			rest.rate += r.rate // mean and wait are sums by rate, until they are divided below
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
		withoutExcess += rest.mean // still a sum by rate
	}
	if n := withoutExcess; n > 0 {
		w.needed += n + 3*math.Sqrt(n) + 1 // three standard deviations for chance, and one more
	}
}

// ninth returns the ninth decile of a and b together, both of which are sorted: of n latencies the
// one at index n*9/10. So at least a tenth of them are that long or longer.
func ninth(a, b []time.Duration) time.Duration {
	// Drop the latencies above it, the longest first.
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
