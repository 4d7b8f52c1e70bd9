package overload

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Graph is a number of services. The first one, the front, calls the others. A request succeeds if
// all calls of its kind succeed.
type Graph struct {
	Name     string
	About    string
	Services []Service
	Kinds    []Kind
	// InTurn makes each call after the one before has succeeded. Otherwise all begin at once.
	InTurn bool
	// SLO is the longest latency of a good answer.
	SLO, Length time.Duration
	// From is when measuring starts.
	From time.Duration
}

// Service is a number of slots behind a queue: first come, first served. A request occupies a slot
// for 0.8 to 1.2 times Time, uniformly. The front does its work before it calls.
type Service struct {
	Name  string
	Slots int
	Time  time.Duration
}

// Capacity returns how many requests a second a service can do.
func (s *Service) Capacity() float64 { return float64(s.Slots) / s.Time.Seconds() }

// Kind is a kind of request. Calls are indexes of services.
type Kind struct {
	Name  string
	Share float64
	Calls []int
}

// Waited is a Limiter that learns how long each request has waited for a slot.
type Waited interface {
	Waited(time.Duration)
}

// Capacity returns how many requests a second of all kinds the services can do.
func (g *Graph) Capacity() float64 {
	least := g.Services[0].Capacity()
	for i := range g.Services[1:] {
		part := 0.0
		for _, k := range g.Kinds {
			if slices.Contains(k.Calls, i+1) {
				part += k.Share
			}
		}
		least = min(least, g.Services[i+1].Capacity()/part)
	}
	return least
}

// Most returns how many requests a second can succeed at a load. It serves kinds with fewer calls
// first. That is right if the calls of each kind are among those of the next one.
func (g *Graph) Most(load float64) float64 {
	kinds := slices.Clone(g.Kinds)
	slices.SortStableFunc(kinds, func(a, b Kind) int { return len(a.Calls) - len(b.Calls) })
	left := make([]float64, len(g.Services))
	for i := range g.Services {
		left[i] = g.Services[i].Capacity()
	}
	most := 0.0
	for _, k := range kinds {
		n := min(load*g.Capacity()*k.Share, left[0])
		for _, i := range k.Calls {
			n = min(n, left[i])
		}
		for _, i := range k.Calls {
			left[i] -= n
		}
		left[0] -= n
		most += n
	}
	return most
}

// GraphResult has the figures of a run of a [Graph].
type GraphResult struct {
	Offered, Good int
	// Shed counts the requests and calls that each service shed.
	Shed []int
	// Wasted is the part of each service's capacity that went into requests without a good answer.
	Wasted []float64
	// Latencies are those of all good answers, sorted.
	Latencies []time.Duration
	Seconds   float64
}

// Goodput returns the answers within the SLO, a second.
func (x *GraphResult) Goodput() float64 { return float64(x.Good) / x.Seconds }

// trip is a request on its way through a graph.
type trip struct {
	Request
	kind    *Kind
	start   time.Duration
	counted bool
	u       []float64 // draw its time at each service
	work    []time.Duration
	calls   int // not yet ended
	ended   bool
	end     func(failed bool)
}

// visit is a trip at one service.
type visit struct {
	t      *trip
	at     int
	since  time.Duration
	end    func(failed bool)
	worked func()
}

type station struct {
	l       Limiter
	running int
	waiting queue[visit]
}

type graphRun struct {
	g        *Graph
	now      time.Duration
	events   heap[func()]
	stations []station
	rate     float64
	gaps     *rand.Rand
	kinds    *rand.Rand
	out      GraphResult
}

// Run runs the graph in the bubble of its caller. Each service has a limiter. load is a multiple of
// the capacity.
func (g *Graph) Run(limiters []Limiter, load float64, seed uint64) *GraphResult {
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	r := &graphRun{
		g: g, gaps: stream(1), kinds: stream(2),
		rate: load * g.Capacity(), stations: make([]station, len(limiters)),
	}
	for i, l := range limiters {
		r.stations[i].l = l
	}
	r.out.Shed, r.out.Wasted = make([]int, len(limiters)), make([]float64, len(limiters))
	r.arriveNext()
	r.events.play(&r.now, g.Length, func(happen func()) { happen() })
	slices.Sort(r.out.Latencies)
	r.out.Seconds = (g.Length - g.From).Seconds()
	for i := range r.out.Wasted {
		r.out.Wasted[i] /= r.out.Seconds * float64(g.Services[i].Slots)
	}
	return &r.out
}

func (r *graphRun) arriveNext() {
	r.events.push(r.now+time.Duration(r.gaps.ExpFloat64()/r.rate*float64(time.Second)), func() {
		r.arriveNext()
		r.start()
	})
}

// start draws a request, which does not depend on the limiters, and lets it enter the front.
func (r *graphRun) start() {
	kind := r.kinds.Float64()
	n := len(r.g.Services)
	t := &trip{
		start: r.now, counted: r.now >= r.g.From,
		u: make([]float64, n), work: make([]time.Duration, n),
	}
	t.Lot, t.Class = r.kinds.Float64(), 1
	for i := range t.u {
		t.u[i] = r.kinds.Float64()
	}
	t.kind = &r.g.Kinds[len(r.g.Kinds)-1]
	for i := range r.g.Kinds {
		if kind -= r.g.Kinds[i].Share; kind < 0 {
			t.kind = &r.g.Kinds[i]
			break
		}
	}
	t.Route = t.kind.Name
	if t.counted {
		r.out.Offered++
	}
	if end, ok := r.enter(t, 0); ok {
		t.end = end
		r.queue(visit{t, 0, r.now, func(bool) {}, func() { r.call(t, 0) }})
	}
}

func (r *graphRun) enter(t *trip, service int) (end func(bool), ok bool) {
	end, ok = r.stations[service].l.Enter(t.Request)
	if !ok && t.counted {
		r.out.Shed[service]++
	}
	return end, ok
}

// call makes the calls of t that may begin now, from the nth on.
func (r *graphRun) call(t *trip, n int) {
	calls := t.kind.Calls[n:]
	if t.calls = len(calls); t.calls == 0 {
		r.finish(t, false)
		return
	}
	if r.g.InTurn {
		r.visit(t, calls[0], func() { r.call(t, n+1) })
		return
	}
	for _, service := range calls {
		r.visit(t, service, func() {
			if t.calls--; t.calls == 0 {
				r.finish(t, false)
			}
		})
	}
}

// visit makes one call. If the service sheds it, the request fails.
func (r *graphRun) visit(t *trip, service int, succeeded func()) {
	end, ok := r.enter(t, service)
	if !ok {
		r.finish(t, true)
		return
	}
	r.queue(visit{t, service, r.now, end, succeeded})
}

func (r *graphRun) queue(v visit) {
	r.stations[v.at].waiting.push(v)
	r.serve(v.at)
}

func (r *graphRun) serve(service int) {
	s, is := &r.stations[service], &r.g.Services[service]
	for s.running < is.Slots && s.waiting.len() > 0 {
		v := s.waiting.pop()
		s.running++
		if w, ok := s.l.(Waited); ok {
			w.Waited(r.now - v.since)
		}
		takes := around(is.Time, 0.2)(0, v.t.u[service])
		if v.t.ended {
			r.waste(v.t, service, takes)
		} else {
			v.t.work[service] = takes
		}
		r.events.push(r.now+takes, func() {
			s.running--
			v.end(false)
			v.worked()
			r.serve(service)
		})
	}
}

// finish ends a request. The work of other services for it is in vain from now on.
func (r *graphRun) finish(t *trip, failed bool) {
	if t.ended {
		return
	}
	t.ended = true
	t.end(failed)
	latency := r.now - t.start
	if good := !failed && latency <= r.g.SLO; !good {
		for service, d := range t.work {
			r.waste(t, service, d)
		}
	} else if t.counted {
		r.out.Good++
		r.out.Latencies = append(r.out.Latencies, latency)
	}
}

func (r *graphRun) waste(t *trip, service int, d time.Duration) {
	if t.counted {
		r.out.Wasted[service] += d.Seconds()
	}
}

// Graphs returns graphs of a front that calls a and b.
func Graphs() []*Graph {
	front := Service{"front", 64, 2 * ms}
	a, b, narrow := Service{"a", 20, 50 * ms}, Service{"b", 20, 50 * ms}, Service{"b", 10, 100 * ms}
	both := []Kind{{"both", 1, []int{1, 2}}}
	half := []Kind{{"one", 0.5, []int{1}}, {"both", 0.5, []int{1, 2}}}
	of := func(name, about string, b Service, kinds []Kind, inTurn bool) *Graph {
		return &Graph{
			Name: name, About: about,
			Services: []Service{front, a, b}, Kinds: kinds, InTurn: inTurn,
			SLO: time.Second, Length: 40 * time.Second, From: 10 * time.Second,
		}
	}
	return []*Graph{
		of("both", "all need a and b, at once", b, both, false),
		of("both, in turn", "all need a, then b", b, both, true),
		of("both, b narrow", "all need a and b, and b can do a quarter", narrow, both, false),
		of("both, b narrow, in turn", "all need a, then b, and b can do a quarter",
			narrow, both, true),
		of("half", "half need a and b, half a alone", b, half, false),
		of("half, in turn", "half need a, then b, half a alone", b, half, true),
		of("half, b narrow", "half need a and b, half a alone, and b can do a quarter",
			narrow, half, false),
		of("half, b narrow, in turn", "half need a, then b, half a alone, and b can do a quarter",
			narrow, half, true),
	}
}
