package shed

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/shed/internal/adaptive"
	"github.com/weir-go/weir/stats"
)

// limiter counts requests in flight and decides which may begin. Of a request it knows the class,
// the tenant and the lot, which orders the requests of a class. It is safe for concurrent use.
type limiter struct {
	epoch time.Time

	mu         sync.Mutex
	latest     instant // what lock last returned
	algorithm  shedlimit.Algorithm
	slo        time.Duration
	maxLimit   int
	bounded    bool // by Options.MaxInFlight
	maxWaiting int  // 0: as many as limit
	advisory   bool // all requests go on: the mode is not core.Enforce

	limit    int
	common   int // places of limit that any class may fill: see glancer.Places
	classes  classes
	inFlight int
	running  list.List[*Permit] // in flight, the oldest first
	waiting  int                // of all classes
	tenants  *tenants           // nil: all requests are of one tenant

	streams, exempt, shadowed int // permits in these states
	exemptTotal               int64

	window          window
	overtaking      overtaking
	glanced         instant // when glanceLocked last called the algorithm
	updates, panics int64   // of the algorithm
}

// defaultMaxInFlight is what the limit does not exceed if Options do not say so.
const defaultMaxInFlight = 10_000

// limits are the options of the limiter.
type limits struct {
	algorithm  shedlimit.Algorithm // of this repository's tests; nil: the next field decides
	fixed      int                 // 0: the limit is adaptive
	slo        time.Duration
	maxLimit   int
	maxWaiting int
	fair       bool // among tenants
	open       bool
}

// configure puts options into force, and returns the classes.
func (l *limiter) configure(names []Class, options limits) []*class {
	if len(names) == 0 {
		names = []Class{{Name: "all"}}
	}
	now := l.lock()
	defer l.mu.Unlock()
	l.slo, l.maxWaiting, l.advisory = options.slo, options.maxWaiting, options.open
	l.maxLimit, l.bounded = options.maxLimit, options.maxLimit > 0
	if !l.bounded {
		l.maxLimit = max(defaultMaxInFlight, options.fixed)
	}
	switch {
	case !options.fair:
		l.tenants = nil
	case l.tenants == nil:
		l.tenants = newTenants()
	}
	l.classes.adopt(names)
	if l.changeLocked(&options) {
		l.window.begin(now, l.inFlight) // the algorithm before saw the old one
		l.updateLocked(now)
	} else {
		l.setLimitLocked(l.limit)
	}
	if l.advisory {
		l.emptyLocked(now)
	} else {
		l.dispatchLocked(now)
	}
	return l.classes.list
}

// changeLocked puts the algorithm of options into force, and reports whether it changed.
func (l *limiter) changeLocked(options *limits) bool {
	next := options.algorithm
	switch {
	case next != nil:
		if l.algorithm != nil {
			return false // it stays
		}
	case options.fixed > 0:
		if next = fixed(options.fixed); l.algorithm == next {
			return false
		}
	default:
		if _, same := l.algorithm.(*adaptive.Algorithm); same {
			return false
		}
		next = adaptive.New()
	}
	l.algorithm = next
	return true
}

func (l *limiter) now() instant { return time.Since(l.epoch) }

// lock takes the lock and returns the time. It reads the clock first, since reading it takes longer
// than most work under the lock. A goroutine that waited for the lock may have read an older time
// than the one before it, so lock returns the latest time that was read.
func (l *limiter) lock() (now instant) {
	now = l.now()
	l.mu.Lock()
	l.latest = max(l.latest, now)
	return l.latest
}

// admitsLocked reports whether a request of c and x with that lot may begin.
func (l *limiter) admitsLocked(c *class, x *tenant, lot uint32, now instant) bool {
	return l.inFlight < l.fullLocked(c, x, lot, now) && c.hasOpenPlace(now)
}

// beginLocked lets a request of c and x in.
func (l *limiter) beginLocked(c *class, x *tenant, now instant) *Permit {
	p := &Permit{limiter: l, class: c, tenant: x, start: now, state: inFlight}
	l.window.addTime(l.inFlight, now)
	l.inFlight++
	l.window.peak = max(l.window.peak, l.inFlight)
	l.window.admitted++
	c.inFlight++
	c.admitted++
	x.add(1, now)
	p.node.Of = p
	l.running.Add(&p.node)
	return p
}

// leaveLocked takes p out of flight. Others may begin in its place.
func (l *limiter) leaveLocked(p *Permit, now instant) {
	l.window.addTime(l.inFlight, now)
	l.window.noteClient(p, now)
	l.running.Remove(&p.node)
	l.inFlight--
	p.class.inFlight--
	p.tenant.add(-1, now)
}

// entry is what the limiter decided about a request.
type entry struct {
	permit          *Permit // nil: the request was shed, or its client left
	shadow, left    bool
	ahead           bool // see Options.Needs
	limit, inFlight int
	wait            time.Duration
	spread          time.Duration // of a shed request: see comeback
}

// acquire decides a request of c and of the tenant with that name. If maxWait is not 0, the request
// may wait in the queue, until done is closed or maxWait is over.
func (l *limiter) acquire(
	done <-chan struct{}, c *class, name uint64, lot uint32, maxWait time.Duration,
) entry {
	e, w := l.enter(c, name, lot, maxWait > 0 && !closed(done))
	if w != nil {
		return l.await(w, done, maxWait)
	}
	return e
}

// closed reports whether done is closed. A request whose client has already left must not wait: it
// could push out another one.
func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// enter decides a request of c and of the tenant with that name. If the request does not fit and
// queue is true, it may wait in the queue. The mode is read under the lock, not with the request's
// options. Otherwise a request could enter the queue after a Replace has emptied it, and wait in
// vain.
func (l *limiter) enter(c *class, name uint64, lot uint32, queue bool) (entry, *waiter) {
	now := l.lock()
	defer l.mu.Unlock()
	c = l.classes.inForce(c)
	l.advanceLocked(now)
	var x *tenant
	if l.tenants != nil {
		x = l.tenants.of(name, now)
	}
	l.glanceLocked(l.fullLocked(c, x, lot, now), now)
	if l.admitsLocked(c, x, lot, now) {
		p := l.beginLocked(c, x, now)
		return entry{permit: p, limit: l.limit, inFlight: l.inFlight}, nil
	}
	l.classes.refuse(c, now)
	x.refused(now)
	if l.advisory {
		return l.letPassLocked(c), nil
	}
	if queue {
		if w := l.enqueueLocked(c, x, lot, now); w != nil {
			return entry{}, w
		}
	}
	l.window.shed++
	c.shedOne(now)
	return entry{limit: l.limit, inFlight: l.inFlight, spread: c.comeback.spread()}, nil
}

// letPassLocked lets in a request of c that does not fit, since the mode is not Enforce.
func (l *limiter) letPassLocked(c *class) entry {
	l.window.shed++
	l.shadowed++
	c.shadowed++
	return entry{
		permit: &Permit{limiter: l, class: c, state: shadowed}, shadow: true,
		limit: l.limit, inFlight: l.inFlight,
	}
}

// ahead sheds a request of c that services behind this one would probably refuse: see needs. If the
// mode is not Enforce, it lets the request pass. The limit is not the reason, so the window does
// not count it.
func (l *limiter) ahead(c *class) entry {
	now := l.lock()
	defer l.mu.Unlock()
	c = l.classes.inForce(c)
	e := entry{ahead: true, limit: l.limit, inFlight: l.inFlight}
	c.ahead++
	if !l.advisory {
		c.shedOne(now)
		e.spread = c.comeback.spread()
		return e
	}
	l.shadowed++
	c.shadowed++
	e.shadow, e.permit = true, &Permit{limiter: l, class: c, state: shadowed}
	return e
}

// exempted lets an exempt request in.
func (l *limiter) exempted() entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exempt++
	l.exemptTotal++
	return entry{permit: &Permit{limiter: l, state: exempt}, limit: l.limit, inFlight: l.inFlight}
}

// advanceLocked ends the window if it is time, and lets in the waiters that may then begin.
func (l *limiter) advanceLocked(now instant) {
	if l.window.over(now) {
		l.updateLocked(now)
	}
	if l.waiting > 0 {
		l.dispatchLocked(now)
	}
}

// fullLocked returns the number of requests in flight below which a request enters.
func (l *limiter) fullLocked(c *class, x *tenant, lot uint32, now instant) int {
	full := c.fullFor(lot)
	if x == nil || l.tenants == nil {
		return full
	}
	return int(math.Ceil(l.tenants.part(x, l.limit, now) * float64(full)))
}

// end ends p, and returns its state before. A nil result teaches the algorithm nothing.
func (l *limiter) end(p *Permit, result *Result) permitState {
	now := l.lock()
	defer l.mu.Unlock()
	state := p.state
	p.state = ended
	switch state {
	case ended:
	case streaming:
		l.streams--
	case exempt:
		l.exempt--
	case shadowed:
		l.shadowed--
	case inFlight:
		before := p.node.Prev
		l.leaveLocked(p, now)
		if result != nil {
			took := p.age(now)
			l.window.note(result, took, p.untilOvertaken(took))
			if !result.Failed && !result.Left {
				l.overtaking.note(took, before, now)
			}
		}
		l.advanceLocked(now)
	}
	return state
}

// stream takes p out of flight, and reports whether it was in flight.
func (l *limiter) stream(p *Permit) bool {
	now := l.lock()
	defer l.mu.Unlock()
	if p.state == inFlight {
		p.state = streaming
		l.streams++
		l.leaveLocked(p, now)
		l.advanceLocked(now)
		return true
	}
	return false
}

// updateLocked asks the algorithm for the limit and begins a window.
func (l *limiter) updateLocked(now instant) {
	limit := l.limit
	if !returns(func() { limit = l.algorithm.Update(l.sampleLocked(now)) }) {
		l.panics++
	}
	l.updates++
	l.common = 0
	if g, ok := l.algorithm.(glancer); ok {
		l.common, l.overtaking.least = g.Places(), g.LeastOvertaking()
	}
	l.setLimitLocked(limit)
	l.window.begin(now, l.inFlight)
	l.window.bounds = l.boundsLocked()
}

// boundsLocked returns the bounds of the next window.
func (l *limiter) boundsLocked() bounds {
	b := usualBounds
	a, ok := l.algorithm.(shedlimit.Windower)
	if !ok {
		return b
	}
	if !returns(func() { b.least, b.most, b.enough = a.Window() }) {
		l.panics++
	}
	// With less than a millisecond, each request could end a window.
	b.least, b.most = max(b.least, time.Millisecond), max(b.most, time.Millisecond)
	return b
}

// setLimitLocked puts a limit into force.
func (l *limiter) setLimitLocked(limit int) {
	l.limit = min(max(limit, l.classes.least()), l.maxLimit)
	l.classes.divide(l.limit, l.common)
}

// glanceLocked calls Glance, if it is time, before the limiter decides a request that may enter
// while fewer than full are in flight.
func (l *limiter) glanceLocked(full int, now instant) {
	g, ok := l.algorithm.(glancer)
	if !ok || now-l.glanced < glanceEvery {
		return
	}
	inFlight, age := g.GlanceFrom()
	if l.inFlight < min(inFlight, full) || l.oldestLocked(now) < age {
		return
	}
	l.glanced = now
	s := shedlimit.Sample{Now: l.epoch.Add(now), InFlight: l.inFlight, MaxLimit: l.maxLimit}
	l.agesLocked(&s, now)
	l.overtaking.describe(&s, now)
	limit := g.Glance(s)
	l.common = g.Places()
	l.setLimitLocked(limit)
}

// oldestLocked returns how long the oldest request has been in flight, or 0.
func (l *limiter) oldestLocked(now instant) time.Duration {
	if oldest := l.running.First; oldest != nil {
		return max(0, now-oldest.Of.start)
	}
	return 0
}

// sampleLocked returns what the window has seen until now.
func (l *limiter) sampleLocked(now instant) shedlimit.Sample {
	w := &l.window
	s := shedlimit.Sample{
		Now: l.epoch.Add(now), Elapsed: now - w.start,
		Limit: l.limit, MinLimit: l.classes.least(), MaxLimit: l.maxLimit, Bounded: l.bounded,
		SLO:      l.slo,
		InFlight: l.inFlight, PeakInFlight: w.peak,
		Admitted: w.admitted, Shed: w.shed,
		Completed: w.completed, Failed: w.failed, Left: w.left,
		Routes: w.sampleRoutes(),
	}
	w.addTime(l.inFlight, now)
	l.agesLocked(&s, now) // brings w.atClients up to now
	l.overtaking.describe(&s, now)
	if s.Elapsed > 0 {
		s.MeanInFlight = w.inFlightTime / float64(s.Elapsed)
		s.MeanAtClients = min(float64(w.atClients)/float64(s.Elapsed), s.MeanInFlight)
	}
	return s
}

// agesLocked sets AtClients and Ages of s. It calls noteClient for each request in flight.
func (l *limiter) agesLocked(s *shedlimit.Sample, now instant) {
	w := &l.window
	w.ages = w.ages[:0]
	for n := l.running.First; n != nil; n = n.Next {
		if w.noteClient(n.Of, now) {
			s.AtClients++
			continue
		}
		w.ages = append(w.ages, n.Of.age(now))
	}
	s.Ages = thin(w.ages)
	longestFirst := func(a, b time.Duration) int { return cmp.Compare(b, a) }
	slices.SortFunc(s.Ages, longestFirst)
}

// isOver reports whether the tenant with that name uses much more than others do.
func (l *limiter) isOver(name uint64) bool {
	now := l.lock()
	defer l.mu.Unlock()
	return l.tenants != nil && l.tenants.over(l.tenants.of(name, now), l.limit, now)
}

// state returns the State without the mode.
func (l *limiter) state() State {
	now := l.lock()
	defer l.mu.Unlock()
	s := State{
		Limit: l.limit, MaxInFlight: l.maxLimit, InFlight: l.inFlight,
		Streams: l.streams, Exempt: l.exempt, Shadowed: l.shadowed, Waiting: l.waiting,
		Routes: len(l.window.routes), Updates: l.updates, Panics: l.panics,
		ExemptTotal: l.exemptTotal, Oldest: l.oldestLocked(now),
	}
	if l.tenants != nil {
		s.Tenants = len(l.tenants.list)
	}
	for _, c := range l.classes.list {
		s.Classes = append(s.Classes, stats.ShedderClassState{
			Name: c.name, Share: c.share, Entry: c.full,
			InFlight: c.inFlight, Waiting: c.waiting.Size,
			Admitted: c.admitted, Shed: c.shed, Shadowed: c.shadowed, Left: c.left,
			Ahead: c.ahead,
		})
	}
	return s
}
