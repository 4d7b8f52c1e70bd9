package shed

import (
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// view is a Sample as the adaptive algorithm sees it. Requests are counted as fractions.
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
	gaps    float64 // part of unevenWait that counts: see adaptive.gaps
	noise   float64 // mean square of service times over the square of their mean; at least 1
	overdue int     // have been in flight for far too long
	aged    float64 // wait by their ages: see adaptive.aged

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

// look returns the view of s.
func (a *adaptive) look(s *shedlimit.Sample) *view {
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
		x := seen{
			figures: measure(r.Latencies), base: a.base.routes[r.Route], completed: r.Completed,
		}
		if x.base == nil {
			x.base = &baseline{figures: x.figures}
			a.base.routes[r.Route] = x.base
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
