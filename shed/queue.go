package shed

import (
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// waiter is a request in the queue.
type waiter struct {
	class   *class
	tenant  *tenant
	lot     uint32
	node    list.Node[*waiter] // in the queue of its class
	since   instant
	decided chan struct{} // closed when another goroutine has taken it out of the queue
	entry   entry         // valid once decided is closed
}

// queue has the waiters of a class, the newest first.
type queue struct{ list.List[*waiter] }

func (q *queue) push(w *waiter) { q.AddFirst(&w.node) }

func (q *queue) remove(w *waiter) { q.Remove(&w.node) }

// newest returns the waiter that came last, or nil.
func (q *queue) newest() *waiter { return waiterOf(q.First) }

// oldest returns the waiter that came first, or nil.
func (q *queue) oldest() *waiter { return waiterOf(q.Last) }

func waiterOf(n *list.Node[*waiter]) *waiter {
	if n == nil {
		return nil
	}
	return n.Of
}

// join moves the waiters of other into q. All are in the order in which they began to wait.
func (q *queue) join(other *queue) {
	var all queue
	for q.Size+other.Size > 0 {
		from := q
		mine, theirs := q.oldest(), other.oldest()
		if mine == nil || theirs != nil && theirs.since < mine.since {
			from = other
		}
		w := from.oldest()
		from.remove(w)
		all.push(w)
	}
	*q = all
}

// enqueueLocked puts a request of c and x into the queue, or returns nil if there is no room: no
// waiter yields to it.
func (l *limiter) enqueueLocked(c *class, x *tenant, lot uint32, now instant) *waiter {
	room := l.maxWaiting
	if room == 0 {
		room = l.limit
	}
	for l.waiting >= room {
		victim := l.victimLocked(c, x)
		if victim == nil {
			return nil
		}
		l.removeLocked(victim)
		victim.class.shedOne(now)
		l.window.shed++
		l.decideLocked(victim, nil, now)
	}
	w := &waiter{class: c, tenant: x, lot: lot, since: now, decided: make(chan struct{})}
	w.node.Of = w
	c.waiting.push(w)
	l.waiting++
	if x != nil {
		x.waiting++
	}
	return w
}

// victimLocked returns the waiter that yields to a request of c and x, or nil. It is the oldest one
// of the least important class, is not more important than c, and is of x or of a tenant with more
// waiters than x.
func (l *limiter) victimLocked(c *class, x *tenant) *waiter {
	for i := len(l.classes.list) - 1; i >= 0 && l.classes.list[i].rank >= c.rank; i-- {
		for n := l.classes.list[i].waiting.Last; n != nil; n = n.Prev {
			other := n.Of.tenant
			if x == nil || other == nil || other == x || other.waiting > x.waiting {
				return n.Of
			}
		}
	}
	return nil
}

func (l *limiter) removeLocked(w *waiter) {
	w.class.waiting.remove(w)
	l.waiting--
	if w.tenant != nil {
		w.tenant.waiting--
	}
}

// decideLocked tells a waiter, which has left the queue, that it is let in; if p is nil, that it is
// shed.
func (l *limiter) decideLocked(w *waiter, p *Permit, now instant) {
	w.entry = entry{permit: p, limit: l.limit, inFlight: l.inFlight, wait: now - w.since}
	if p == nil {
		w.entry.spread = w.class.comeback.spread()
	}
	close(w.decided)
}

// emptyLocked lets all waiters pass, as the mode is not Enforce. Those that fit begin first.
func (l *limiter) emptyLocked(now instant) {
	l.dispatchLocked(now)
	for _, c := range l.classes.list {
		for w := c.waiting.newest(); w != nil; w = c.waiting.newest() {
			l.removeLocked(w)
			w.entry = l.letPassLocked(c)
			w.entry.wait = now - w.since
			close(w.decided)
		}
	}
}

// mostPassed is how many waiters of a class may be passed over for their tenants and lots at once.
// All of 9,000 take 270 µs under the lock.
const mostPassed = 32

// dispatchLocked lets in waiters that may begin: the most important class first, of a class the
// newest that may enter by its tenant and its lot.
func (l *limiter) dispatchLocked(now instant) {
	for _, c := range l.classes.list {
		passed := 0
		for n := c.waiting.First; n != nil && passed < mostPassed; {
			if !l.admitsLocked(c, nil, 0, now) {
				break
			}
			w := n.Of
			n = n.Next
			if !l.admitsLocked(c, w.tenant, w.lot, now) {
				passed++
				continue
			}
			l.removeLocked(w)
			p := l.beginLocked(c, w.tenant, now)
			l.decideLocked(w, p, now)
		}
	}
}

// await waits until w is decided, its client leaves or maxWait is over.
func (l *limiter) await(w *waiter, done <-chan struct{}, maxWait time.Duration) entry {
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	left := false
	select {
	case <-w.decided:
		return w.entry
	case <-timer.C:
	case <-done:
		left = true
	}
	return l.giveUp(w, left)
}

// giveUp takes w out of the queue: its client has left, or it has waited for maxWait.
func (l *limiter) giveUp(w *waiter, left bool) entry {
	now := l.lock()
	defer l.mu.Unlock()
	if !left {
		l.advanceLocked(now) // time alone may have made room: see class.close
	}
	select {
	case <-w.decided: // meanwhile
		if left && w.entry.permit != nil {
			l.passOnLocked(w, now)
		}
		return w.entry
	default:
	}
	l.removeLocked(w)
	e := entry{left: left, limit: l.limit, inFlight: l.inFlight, wait: now - w.since}
	if left {
		w.class.left++
		return e
	}
	w.class.shedOne(now)
	l.window.shed++
	e.spread = w.class.comeback.spread()
	return e
}

// passOnLocked takes back the permit of a waiter whose client has left. The next waiter gets its
// place.
func (l *limiter) passOnLocked(w *waiter, now instant) {
	p := w.entry.permit
	w.entry.permit, w.entry.left = nil, true
	state := p.state
	p.state = ended
	p.class.left++
	if state == shadowed {
		w.entry.shadow = false
		l.shadowed--
		p.class.shadowed--
		l.window.shed = max(0, l.window.shed-1)
		return
	}
	p.class.admitted--
	l.window.admitted = max(0, l.window.admitted-1)
	l.leaveLocked(p, now)
	l.advanceLocked(now)
}
