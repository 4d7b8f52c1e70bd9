package shed

import (
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/shedlimit"
)

const (
	maxRoutes   = 256 // routes with samples of their own
	otherRoute  = "other"
	manyRoutes  = 16 // so many active routes keep manySamples each, the others fewSamples
	manySamples = 256
	fewSamples  = 16
	maxAges     = 1024 // in a Sample
)

// window counts what happens between two updates. The limiter's lock guards it.
type window struct {
	bounds
	start instant

	peak         int           // the most requests in flight
	inFlightTime float64       // of all requests together, in nanoseconds
	countedTo    instant       // inFlightTime counts until then
	atClients    time.Duration // part of inFlightTime: spent waiting for clients

	admitted, shed          int
	completed, failed, left int

	routes  map[string]*route
	active  []*route                // with a request that ended in the window, by the first such end
	samples []shedlimit.RouteSample // scratch
	ages    []time.Duration         // scratch
	random  uint64                  // state of the generator
}

// bounds say when a window ends: after least if enough requests have completed, otherwise after
// most.
type bounds struct {
	least, most time.Duration
	enough      int
}

// usualBounds hold if the algorithm chooses no others.
var usualBounds = bounds{least: 250 * time.Millisecond, most: time.Second, enough: 20}

// route has the latencies of a route in the window.
type route struct {
	name           string
	completed      reservoir
	ends           reservoir     // of requests that failed or whose clients left
	keep           int           // durations that each reservoir keeps; 0: the route is not active
	untilOvertaken time.Duration // see RouteSample.UntilOvertaken
}

// begin begins a window at now.
func (w *window) begin(now instant, inFlight int) {
	w.start, w.peak = now, inFlight
	w.inFlightTime, w.countedTo, w.atClients = 0, now, 0
	w.admitted, w.shed = 0, 0
	w.completed, w.failed, w.left = 0, 0, 0
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

// addTime adds the time from countedTo until now, in which inFlight requests were in flight.
func (w *window) addTime(inFlight int, now instant) {
	if now > w.countedTo {
		w.inFlightTime += float64(inFlight) * float64(now-w.countedTo)
		w.countedTo = now
	}
}

// noteClient brings p.atClient up to now, and adds the difference to w.atClients. It reports
// whether p waits for its client now.
func (w *window) noteClient(p *Permit, now instant) (waits bool) {
	total, waits := p.client.until(now)
	w.atClients += total - p.atClient
	p.atClient = total
	return waits
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
	switch {
	case result.Left:
		w.left++
		r.ends.add(d, r.keep, &w.random)
	case result.Failed:
		w.failed++
		r.ends.add(d, r.keep, &w.random)
	default:
		w.completed++
		r.untilOvertaken += untilOvertaken
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

// sampleRoutes returns the samples of the active routes.
func (w *window) sampleRoutes() []shedlimit.RouteSample {
	w.samples = w.samples[:0]
	for _, r := range w.active {
		slices.Sort(r.completed.drawn)
		slices.Sort(r.ends.drawn)
		w.samples = append(w.samples, shedlimit.RouteSample{
			Route: r.name, Completed: r.completed.seen, Failed: r.ends.seen,
			Total: r.completed.total, UntilOvertaken: r.untilOvertaken,
			Latencies: r.completed.drawn, Ends: r.ends.drawn,
		})
	}
	return w.samples
}
