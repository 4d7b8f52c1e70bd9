package shed

import (
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
	"github.com/weir-go/weir/internal/ground/shedlimit"
)

// instant is the time since the limiter was made, by the monotonic clock.
type instant = time.Duration

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
	classes  []*class
	retired  []*class // that a Replace left out
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

// refuseLocked notes that a request of c did not get in. If more important classes fill the share
// of c, it closes c and all less important classes, even those without requests: they would take
// the places that c leaves free. All reopen together.
func (l *limiter) refuseLocked(c *class, now instant) {
	above := 0
	for _, other := range l.classes[:c.rank] {
		above += other.inFlight
	}
	if above < c.full {
		return
	}
	for _, other := range l.classes[c.rank:] {
		other.close(now)
	}
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
	c = l.inForceLocked(c)
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
	l.refuseLocked(c, now)
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
	c.shed++
	return entry{limit: l.limit, inFlight: l.inFlight}, nil
}

// inForceLocked returns c. If a Replace has left c out since the request read its options, it
// returns the last class.
func (l *limiter) inForceLocked(c *class) *class {
	if c.rank == retiredRank {
		return l.classes[len(l.classes)-1]
	}
	return c
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
	l.mu.Lock()
	defer l.mu.Unlock()
	c = l.inForceLocked(c)
	e := entry{ahead: true, limit: l.limit, inFlight: l.inFlight}
	c.ahead++
	if !l.advisory {
		c.shed++
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

// returns calls f, which calls the algorithm, and reports whether it returned instead of panicking.
// A mistake in the algorithm must cost no request its permit, and leave no Replace half done.
func returns(f func()) (ok bool) {
	defer func() {
		if !ok {
			_ = recover()
		}
	}()
	f()
	return true
}

// setLimitLocked puts a limit into force. Any class may fill the common places of it, and shares
// are parts of the rest. A class with a smaller share than the first always has a place, and leaves
// the first one a place, however shares are rounded.
func (l *limiter) setLimitLocked(limit int) {
	l.limit = min(max(limit, l.leastLocked()), l.maxLimit)
	common := min(l.common, l.limit-1)
	first := l.classes[0]
	for _, c := range l.classes {
		c.full = common + (c.share*(l.limit-common)+99)/100
		if c.share == first.share {
			c.full = max(c.full, l.leastLocked())
		} else {
			c.full = min(c.full, first.full-1)
		}
	}
	// Requests with the last lot may fill as much as the next class. In the last class they may fill
	// the common places and lastLot percent of the others.
	for i := 1; i < len(l.classes); i++ {
		l.classes[i-1].low = l.classes[i].full
	}
	last := l.classes[len(l.classes)-1]
	last.low = common + (last.full-common)*lastLot/100
}

// leastLocked returns the least limit: 2 if shares differ, so that all classes have a place and the
// first has one more.
func (l *limiter) leastLocked() int {
	if last := l.classes[len(l.classes)-1]; last.share < l.classes[0].share {
		return 2
	}
	return 1
}
