// Package overload simulates services that are offered more than they can do. It measures limiters
// of requests in flight: the tests of package shed and the benchmarks run the same scenarios.
//
// A run is one goroutine that sleeps from event to event in a testing/synctest bubble. So limiters
// may read time.Now, a run takes no real time, and its seed determines everything in it.
package overload

import (
	"math/rand/v2"
	"time"
)

// Request is what a limiter knows of a request.
type Request struct {
	Route string
	Class int // 0 is critical, 1 normal, 2 sheddable
	// Tenant names its client: see Route.Tenant.
	Tenant string
	// Lot is the same at all services of a [Graph] that the request needs. It is uniform in [0, 1).
	Lot float64
}

// Limiter stands in front of a service. Enter returns false if it sheds the request. Otherwise the
// caller calls end at the end of the request.
type Limiter interface {
	Enter(Request) (end func(failed bool), ok bool)
}

// Route is one kind of request.
type Route struct {
	Name string
	// Share is its part of all requests. At any time the shares of all routes add up to 1.
	Share func(at time.Duration) float64
	// Time is how long a request occupies a slot, if it starts at the instant at. u is uniform in
	// [0, 1).
	Time func(at time.Duration, u float64) time.Duration
	// Mean is the mean of Time at the instant at.
	Mean func(at time.Duration) time.Duration
	// Aside requests need no slot, as health checks do not.
	Aside bool
	// Tenant names the client of the nth request. nil: the name of the route.
	Tenant func(n int) string
}

// Span is a part of the time of a run.
type Span struct{ From, To time.Duration }

func (s Span) has(at time.Duration) bool { return s.From <= at && at < s.To }

// Order is how slots are shared among requests.
type Order uint8

const (
	FirstCome Order = iota // requests get slots in the order in which they come
	AnyOrder               // a free slot goes to a random request of those that wait
	Sharing                // all requests run at once and share the slots: no Patience, no Hang
)

// Siege is a number of connections that ask for one route, each again when it is answered, or Again
// after it was shed. They begin within a tenth of a second. Only Result.Of counts their requests.
type Siege struct {
	Span
	Route       string
	Connections int
	Again       time.Duration
}

// Scenario is a service, its requests and its clients. Loads are multiples of its capacity.
type Scenario struct {
	Name   string
	About  string
	Slots  int
	Routes []Route
	// Patience is how long a handler waits for a slot before it fails. 0: for ever.
	Patience time.Duration
	// Hang is the span in which no request ends. Those that would end then, end at its end.
	Hang Span
	// Hangs is the route whose requests hang; "" means all.
	Hangs string
	// Order is how the slots are shared among requests.
	Order Order
	// Siege asks for one route again and again.
	Siege Siege
	// Load is the multiple of the capacity that is offered at the instant at, in a run with the
	// given load.
	Load func(at time.Duration, load float64) float64
	// Fixed means that the capacity at the start is that of the whole run.
	Fixed bool
	// SLO is the longest latency of a good answer. Timeout is when a client gives up.
	SLO, Timeout time.Duration
	Length       time.Duration
	// From is when measuring starts.
	From time.Duration
	// Trouble is the span in which no shed counts as false.
	Trouble Span
	// Step is when the load rises or trouble starts, End when it is over. 0: neither happens.
	Step, End time.Duration
}

// Capacity returns how many requests a second the service can do.
func (s *Scenario) Capacity(at time.Duration) float64 {
	if s.Fixed {
		at = 0
	}
	busy := 0.0 // seconds of a slot for the mean request
	for _, r := range s.Routes {
		if !r.Aside {
			busy += r.Share(at) * r.Mean(at).Seconds()
		}
	}
	return float64(s.Slots) / busy
}

// Work returns how many requests a second that need a slot the service can do at the start.
func (s *Scenario) Work() float64 {
	part := 0.0
	for _, r := range s.Routes {
		if !r.Aside {
			part += r.Share(0)
		}
	}
	return part * s.Capacity(0)
}

// Options say how a scenario is run.
type Options struct {
	Load    float64
	Seed    uint64
	Retries int
	// Classes are the parts of requests that are critical and normal; the others are sheddable. If
	// both are 0, all are normal.
	Classes [2]float64
	// Each is called once a simulated second, if set.
	Each func(Second)
}

// Second is what happened in a second of a run.
type Second struct {
	At                        int
	Offered, Good, Late, Shed int
	Waiting, Running          int
}

// kind of an event.
type kind uint8

const (
	arrive kind = iota
	finish
	giveUp
	leave // a client gives up after its timeout
	tick
	share // the first of the requests that share the slots may have ended
)

type event struct {
	kind kind
	r    *request
}

// request is one try of a client.
type request struct {
	Request
	route   *Route
	start   time.Duration
	u       float64
	tries   int // left
	counted bool
	waits   bool
	ended   bool
	end     func(failed bool)
	first   *outcome
	siege   bool    // of a connection of the siege
	ends    float64 // with Sharing: see shared
}

// outcome is what a client got, over all its tries.
type outcome struct{ good bool }

// run is the state of one run.
type run struct {
	s       *Scenario
	o       Options
	l       Limiter
	began   time.Time
	now     time.Duration
	events  heap[event]
	waiting queue[*request]
	running int
	most    float64 // requests a second, at most
	gaps    *rand.Rand
	kinds   *rand.Rand
	again   *rand.Rand
	shared  shared
	out     Result
	second  Second
}

// Run runs the scenario in the bubble that it is called in.
func (s *Scenario) Run(l Limiter, o Options) *Result {
	stream := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, n)) }
	r := &run{
		s: s, o: o, l: l, began: time.Now(),
		gaps: stream(1), kinds: stream(2), again: stream(3),
	}
	r.waiting.random = s.Order == AnyOrder
	r.waiting.drawn = stream(4)
	r.out.Of = make(map[string]*Count)
	for i := range s.Routes {
		r.out.Of[s.Routes[i].Name] = new(Count)
	}
	for at := time.Duration(0); at < s.Length; at += 100 * time.Millisecond {
		r.most = max(r.most, s.Load(at, o.Load)*s.Capacity(at))
	}
	r.arriveNext()
	for range s.Siege.Connections {
		r.ask(s.Siege.From + time.Duration(r.again.Float64()*float64(100*time.Millisecond)))
	}
	if o.Each != nil {
		r.add(time.Second, tick, nil)
	}
	r.events.play(&r.now, s.Length, r.happen)
	r.out.close(s)
	return &r.out
}

func (r *run) add(at time.Duration, k kind, q *request) {
	r.events.push(at, event{k, q})
}

func (r *run) happen(e event) {
	switch e.kind {
	case arrive:
		if e.r != nil {
			r.start(e.r) // another try
			return
		}
		r.arriveNext()
		if r.gaps.Float64()*r.most < r.s.Load(r.now, r.o.Load)*r.s.Capacity(r.now) {
			r.start(r.newRequest())
		}
	case finish:
		if r.s.Hang.has(r.now) && (r.s.Hangs == "" || r.s.Hangs == e.r.Route) {
			r.add(r.s.Hang.To, finish, e.r)
			return
		}
		if !e.r.route.Aside {
			r.running--
		}
		r.finished(e.r, false)
		r.serve()
	case share:
		if q := r.shared.take(r.now, e.r); q != nil {
			r.finished(q, false)
			r.share()
		}
	case giveUp:
		if e.r.waits {
			e.r.waits = false
			r.finished(e.r, true)
		}
	case leave:
		if !e.r.ended {
			r.retry(e.r, r.now)
		}
	case tick:
		r.second.At++
		r.second.Waiting, r.second.Running = r.waiting.len(), r.running
		r.o.Each(r.second)
		r.second = Second{At: r.second.At}
		r.add(r.now+time.Second, tick, nil)
	}
}

func (r *run) arriveNext() {
	r.add(r.now+time.Duration(r.gaps.ExpFloat64()/r.most*float64(time.Second)), arrive, nil)
}

// newRequest draws what does not depend on the limiter: the kind of a request and its time.
func (r *run) newRequest() *request {
	kind, class := r.kinds.Float64(), r.kinds.Float64()
	q := &request{u: r.kinds.Float64(), tries: r.o.Retries, first: new(outcome)}
	q.route = &r.s.Routes[len(r.s.Routes)-1]
	for i := range r.s.Routes {
		if kind -= r.s.Routes[i].Share(r.now); kind < 0 {
			q.route = &r.s.Routes[i]
			break
		}
	}
	q.Route, q.Class = q.route.Name, 1
	r.name(q)
	q.counted = r.now >= r.s.From && !q.route.Aside
	if c := r.o.Classes; c != [2]float64{} {
		switch {
		case class < c[0]:
			q.Class = 0
		case class >= c[0]+c[1]:
			q.Class = 2
		}
	}
	if q.counted {
		r.out.Offered++
		r.out.OfferedOf[q.Class]++
	}
	r.second.Offered++
	return q
}

// name sets the client of a request.
func (r *run) name(q *request) {
	q.Tenant = q.Route
	if of := r.out.Of[q.Route]; q.route.Tenant != nil {
		q.Tenant = q.route.Tenant(of.named)
		of.named++
	}
}

// start lets a request try to enter.
func (r *run) start(q *request) {
	q.start = r.now
	of := r.out.Of[q.Route]
	if r.now >= r.s.From {
		of.Tries++
	}
	if q.counted {
		r.out.Tries++
		if !r.s.Trouble.has(r.now) {
			r.out.Calm++
		}
	}
	end, ok := r.l.Enter(q.Request)
	if !ok {
		if r.now >= r.s.From {
			of.Shed++
		}
		if q.siege {
			r.ask(r.now + r.s.Siege.Again)
			return
		}
		r.out.shed(r.s, q, r.now)
		r.second.Shed++
		r.retry(q, r.now+time.Duration((50+100*r.again.Float64())*float64(time.Millisecond)))
		return
	}
	q.end = end
	if q.tries > 0 {
		r.add(r.now+r.s.Timeout, leave, q)
	}
	if q.route.Aside {
		r.add(r.now+q.route.Time(r.now, q.u), finish, q)
		return
	}
	if r.s.Order == Sharing {
		r.shared.add(r.now, q, r.s.Slots, q.route.Time(r.now, q.u))
		r.share()
		return
	}
	q.waits = true
	r.waiting.push(q)
	r.serve()
	if q.waits && r.s.Patience > 0 {
		r.add(r.now+r.s.Patience, giveUp, q)
	}
}

// retry starts another try at an instant, if one is left.
func (r *run) retry(q *request, at time.Duration) {
	if q.tries == 0 {
		return
	}
	next := *q
	next.tries, next.ended, next.waits, next.end = q.tries-1, false, false, nil
	next.u = r.again.Float64()
	q.tries = 0
	r.add(at, arrive, &next)
}

// ask lets a connection of the siege ask at an instant, unless the siege is over.
func (r *run) ask(at time.Duration) {
	if !r.s.Siege.has(at) {
		return
	}
	for i := range r.s.Routes {
		if r.s.Routes[i].Name == r.s.Siege.Route {
			q := &request{u: r.again.Float64(), first: new(outcome), siege: true}
			q.route = &r.s.Routes[i]
			q.Route, q.Class = q.route.Name, 1
			r.name(q)
			r.add(at, arrive, q)
		}
	}
}

// share adds an event when the next request ends, if no other begins before.
func (r *run) share() {
	if at, first := r.shared.next(r.now); first != nil {
		r.add(at, share, first)
	}
}

// serve gives free slots to requests that wait.
func (r *run) serve() {
	for r.running < r.s.Slots && r.waiting.len() > 0 {
		q := r.waiting.pop()
		if !q.waits {
			continue
		}
		q.waits = false
		r.running++
		r.add(r.now+q.route.Time(r.now, q.u), finish, q)
	}
}

func (r *run) finished(q *request, failed bool) {
	q.ended = true
	q.end(failed)
	latency := r.now - q.start
	if q.siege {
		if !failed {
			r.out.Of[q.Route].Ended++
		}
		r.ask(r.now)
		return
	}
	good := !failed && latency <= r.s.SLO && !q.first.good
	if good {
		q.first.good = true
		r.second.Good++
	} else {
		r.second.Late++
	}
	if q.start >= r.s.From {
		of := r.out.Of[q.Route]
		if !failed {
			of.Ended++
		}
		if good {
			of.Good++
		}
	}
	if failed {
		r.retry(q, r.now)
	}
	if q.counted {
		r.out.answered(q, latency, good, failed)
	}
}
