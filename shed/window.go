package shed

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	maxRoutes    = 256 // routes with samples of their own
	otherRoute   = "other"
	manyRoutes   = 16 // routes keep manySamples each, the others fewSamples
	manySamples  = 256
	fewSamples   = 16
	maxAges      = 1024
	leastWindow  = 250 * time.Millisecond
	mostWindow   = time.Second
	windowSample = 20
)

// window counts what happens between two updates. The limiter's lock guards it.
type window struct {
	start       instant
	least, most time.Duration // how long it lasts
	enough      int           // completions to end it after least

	peak     int
	area     float64 // of the requests in flight over time
	areaAt   instant
	clients  time.Duration // of area, the time in which requests waited for their clients
	admitted int
	shed     int

	completed, failed, left int

	routes  map[string]*route
	active  []*route                // with requests that ended in the window, in order
	samples []shedlimit.RouteSample // scratch
	ages    []time.Duration
	random  uint64 // state of the generator
}

// route has the latencies of a route in the window.
type route struct {
	name            string
	completed, ends reservoir
	keep            int           // 0: not active
	untilOvertaken  time.Duration // see RouteSample.UntilOvertaken
}

// begin begins a window at now.
func (w *window) begin(now instant, inFlight int) {
	w.least, w.most, w.enough = leastWindow, mostWindow, windowSample
	w.start, w.areaAt, w.area, w.clients, w.peak = now, now, 0, 0, inFlight
	w.admitted, w.shed, w.completed, w.failed, w.left = 0, 0, 0, 0, 0
	for _, r := range w.active {
		r.completed.clear()
		r.ends.clear()
		r.keep, r.untilOvertaken = 0, 0
	}
	w.active = w.active[:0]
}

func (w *window) over(now instant) bool {
	passed := now - w.start
	return passed >= w.most || passed >= w.least && w.completed >= w.enough
}

// flow adds the time until now, during which inFlight requests were in flight.
func (w *window) flow(inFlight int, now instant) {
	if now > w.areaAt {
		w.area += float64(inFlight) * float64(now-w.areaAt)
		w.areaAt = now
	}
}

// noteClient adds the time until now during which p waited for its client. It returns how long p
// has waited in all, and whether it waits now.
func (w *window) noteClient(p *Permit, now instant) (total time.Duration, waits bool) {
	total, waits = p.client.until(now)
	w.clients += total - p.noted
	p.noted = total
	return total, waits
}

// note adds the end of a request that took d. untilOvertaken is the time until it was overtaken, or
// d if it was not: see overtaking.
func (w *window) note(result *Result, d, untilOvertaken time.Duration) {
	r := w.route(result.Route)
	if r.keep == 0 {
		r.keep = manySamples
		if len(w.active) >= manyRoutes {
			r.keep = fewSamples
		}
		w.active = append(w.active, r)
	}
	d = max(d, 0)
	switch {
	case result.Left:
		w.left++
		r.ends.add(d, r.keep, &w.random)
	case result.Failed:
		w.failed++
		r.ends.add(d, r.keep, &w.random)
	default:
		w.completed++
		r.untilOvertaken += max(untilOvertaken, 0)
		r.completed.add(d, r.keep, &w.random)
	}
}

func (w *window) route(name string) *route {
	if r := w.routes[name]; r != nil {
		return r
	}
	if len(w.routes) >= maxRoutes {
		name = otherRoute
		if r := w.routes[name]; r != nil {
			return r
		}
	}
	if w.routes == nil {
		w.routes = make(map[string]*route)
	}
	r := &route{name: strings.Clone(name)}
	w.routes[r.name] = r
	return r
}

// sampleLocked returns what the window has seen until now.
func (l *limiter) sampleLocked(now instant) shedlimit.Sample {
	w := &l.window
	w.flow(l.inFlight, now)
	s := shedlimit.Sample{
		Now: l.epoch.Add(now), Elapsed: now - w.start,
		Limit: l.limit, MinLimit: l.leastLocked(), MaxLimit: l.maxLimit, Bounded: l.bounded,
		SLO:      l.slo,
		InFlight: l.inFlight, PeakInFlight: w.peak,
		Admitted: w.admitted, Shed: w.shed,
		Completed: w.completed, Failed: w.failed, Left: w.left,
	}
	if s.Elapsed > 0 {
		s.MeanInFlight = w.area / float64(s.Elapsed)
	}
	w.samples = w.samples[:0]
	for _, r := range w.active {
		slices.Sort(r.completed.drawn)
		slices.Sort(r.ends.drawn)
		w.samples = append(w.samples, shedlimit.RouteSample{
			Route: r.name, Completed: r.completed.seen, Failed: r.ends.seen,
			Total:     r.completed.total,
			Latencies: r.completed.drawn, Ends: r.ends.drawn,
			UntilOvertaken: r.untilOvertaken,
		})
	}
	s.Routes = w.samples
	l.agesLocked(&s, now)
	l.overtaking.describe(&s, now)
	if s.Elapsed > 0 {
		s.MeanAtClients = min(float64(w.clients)/float64(s.Elapsed), s.MeanInFlight)
	}
	return s
}

// agesLocked sets AtClients and Ages of s.
func (l *limiter) agesLocked(s *shedlimit.Sample, now instant) {
	w := &l.window
	w.ages = w.ages[:0]
	for n := l.running.First; n != nil; n = n.Next {
		if _, waits := w.noteClient(n.Of, now); waits {
			s.AtClients++
		}
	}
	every := max(1, (l.inFlight-s.AtClients+maxAges-1)/maxAges)
	i := 0
	for n := l.running.First; n != nil; n = n.Next {
		p := n.Of
		client, waits := w.noteClient(p, now)
		if waits {
			continue
		}
		if i%every == 0 {
			w.ages = append(w.ages, max(0, now-p.start-client))
		}
		i++
	}
	slices.SortFunc(w.ages, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	s.Ages = w.ages
}
