package redisbackend

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// lane is the way to one server. It has a bounded number of calls under way, each
// on a goroutine that lives while there is work, and has the other requests wait.
// When a call ends, those that wait are decided by the next. A call does not end with its caller: whoever leaves leaves it
// behind, and the connection it makes is there for the next.
type lane struct {
	client redis.Scripter
	name   string // of the server, in the log; "": there is only one
	most   int    // calls under way
	prompt bool   // the client ends calls at the deadline of their context
	logger *slog.Logger

	patience time.Duration // quietFor

	mu         sync.Mutex
	calls      int
	weight     int             // of what waits
	queues     [3]list[*crowd] // of what waits: the more of its keys are crowded, the later
	waiting    map[string]int  // crowds that charge a key, by its name
	crowds     map[sameness]*crowd
	spare      []*crowd
	bound      context.Context // of the calls that start now
	boundUntil time.Time
	health

	workers sync.Pool                  // of *worker
	late    *lateness                  // of the process
	watch   *time.Timer                // nil: not made yet
	watched bool                       // it runs
	where   *atomic.Pointer[placement] // where keys are kept; holds nil if one call can be for all
	wellAt  atomic.Int64               // when it last decided, in nanoseconds since epoch; negative: has failed since
}

const (
	// callTimeout is how long a call may take: long enough to connect over slow
	// networks, whatever time the callers have.
	callTimeout = time.Second

	// crowdedKey is how many crowds have to wait for a key before others go first.
	crowdedKey = 32

	// maxSpare is how many crowds a lane keeps for later.
	maxSpare = 1024
)

func newLane(client redis.Scripter, name string, most int, logger *slog.Logger, late *lateness) *lane {
	l := &lane{client: client, name: name, most: most, logger: logger, patience: quietFor, late: late, waiting: make(map[string]int), crowds: make(map[sameness]*crowd)}
	l.workers.New = func() any {
		w := &worker{lane: l, solo: newCrowd()}
		w.run = w.work
		return w
	}
	return l
}

// decide has the server answer a, about accounts, and waits for the answer as long
// as ctx lasts. It reports whether a has come back: otherwise it is still in use.
func (l *lane) decide(ctx context.Context, a *ask, accounts []account) (back bool, err error) {
	since := time.Now()
	here, err := l.submit(ctx, a, accounts, since, true)
	if err != nil {
		return true, err
	}
	if !here {
		return a.wait(ctx, l, since)
	}
	err = l.callHere(ctx, a, since)
	if err == nil {
		return true, nil
	}
	if !l.behind(ctx, since) {
		return true, err
	}
	// The process did not run in time. What the call took, if it did, stays taken.
	if _, err := l.submit(ctx, a, accounts, time.Now(), false); err != nil {
		return true, err
	}
	return a.wait(ctx, l, since)
}

// submit sends a, or has it wait; or tells the caller to make the call itself, on
// its own goroutine, if it would.
func (l *lane) submit(ctx context.Context, a *ask, accounts []account, now time.Time, would bool) (here bool, err error) {
	l.mu.Lock()
	probes, err := l.admitLocked(now)
	if err != nil {
		l.mu.Unlock()
		return false, err
	}
	if l.calls >= l.allowedLocked(now) && !probes {
		l.enqueueLocked(a, accounts)
		l.watchLocked()
		l.mu.Unlock()
		return false, nil
	}
	if l.calls++; l.calls == 1 {
		l.quietSince = now
	}
	if would && !probes && l.isForCaller(ctx, now) {
		l.mu.Unlock()
		return true, nil
	}
	w := l.workers.Get().(*worker)
	w.probes = probes
	w.solo.add(a)
	a.sent = true
	w.crowds = append(w.crowds, w.solo)
	w.bound = l.contextLocked(now)
	w.since = now
	l.mu.Unlock()
	go w.run()
	return false, nil
}

func (l *lane) enqueueLocked(a *ask, accounts []account) {
	merges := a.mode == modeTake
	var same sameness
	if merges {
		a.accounts = append(a.accounts[:0], accounts...)
		same = samenessOf(accounts, a.instant)
		if c := l.crowds[same]; c != nil {
			c.add(a)
			return
		}
	}
	var c *crowd
	if n := len(l.spare); n > 0 {
		c, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		c = newCrowd()
	}
	if merges {
		c.same, c.known = same, true
		l.crowds[same] = c
	}
	c.add(a)
	c.queue = l.queueOf(a.keys)
	c.queue.add(&c.place)
	l.countLocked(c, 1)
}

// countLocked counts those that wait, for the keys of a crowd.
func (l *lane) countLocked(c *crowd, by int) {
	l.weight += by * c.one().weight
	for _, name := range c.one().keys {
		if l.waiting[name] += by; l.waiting[name] == 0 {
			delete(l.waiting, name)
		}
	}
}

// queueOf returns where a request for some keys is to wait. Each key that many
// others wait for sends it further back, so that nobody waits behind a client that
// sends more than Redis can take.
func (l *lane) queueOf(names []string) *list[*crowd] {
	crowded := 0
	for _, name := range names {
		if l.waiting[name] >= crowdedKey {
			crowded++
		}
	}
	return &l.queues[min(crowded, len(l.queues)-1)]
}

// unlinkLocked removes a crowd from those that wait.
func (l *lane) unlinkLocked(c *crowd) {
	c.queue.remove(&c.place)
	c.queue = nil
	l.countLocked(c, -1)
	if c.known {
		delete(l.crowds, c.same)
	}
}

// withdraw takes a back, which has waited since an instant until ctx ended. A
// request that has not been sent takes nothing; one that has may still take, and
// its reply will find nobody.
func (l *lane) withdraw(a *ask, ctx context.Context, since time.Time) (back bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-a.done:
		return true, a.err // at the very last moment
	default:
	}
	err = ctx.Err()
	waits := a.crowd != nil && !a.sent
	if waits {
		c := a.crowd
		if c.asks.size == 1 {
			l.unlinkLocked(c)
			l.keepLocked(c)
		} else {
			c.remove(a)
		}
	}
	a.left = !waits
	if l.answeredAt.After(since) && (waits || l.timelyLocked(ctx, since)) {
		return waits, spared{fmt.Errorf("%w: %w", errBusy, err)}
	}
	if l.latest != nil {
		err = fmt.Errorf("%w; the latest failure was: %w", err, l.latest)
	}
	return waits, err
}

// timelyLocked reports whether the server answers within such time as ctx gave a
// request that has waited since an instant, or would if this process ran in time.
func (l *lane) timelyLocked(ctx context.Context, since time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && l.answeredIn < deadline.Sub(since) || l.late.within(time.Now(), 2*slice) >= lateEnough
}

// keepLocked keeps the memory of a crowd for later.
func (l *lane) keepLocked(c *crowd) {
	c.clear()
	if len(l.spare) < maxSpare {
		l.spare = append(l.spare, c)
	}
}

// collectLocked gives w what waits, as far as one call takes it.
func (l *lane) collectLocked(w *worker) {
	weight := 0
	for i := range l.queues {
		most := maxWeight - (maxWeight-weight)/8 // the rest is for those behind, so that they get on as well
		if i == len(l.queues)-1 {
			most = maxWeight
		}
		for q := &l.queues[i]; q.first != nil && weight < most; {
			c := q.first.of
			weight += c.one().weight
			l.unlinkLocked(c)
			c.send()
			w.crowds = append(w.crowds, c)
		}
	}
}

// waits reports whether any request waits.
func (l *lane) waits() bool {
	return l.queues[0].first != nil || l.queues[1].first != nil || l.queues[2].first != nil
}

// putBackLocked has those wait again, first of all, that a call did not get to.
func (l *lane) putBackLocked(c *crowd, rest *link[*ask]) {
	again := newCrowd()
	for k := rest; k != nil; {
		a, next := k.of, k.next
		a.place = link[*ask]{}
		if a.sent = false; !a.left {
			again.add(a)
		}
		k = next
	}
	if again.asks.size == 0 {
		return
	}
	again.same = c.same
	if l.crowds[c.same] == nil {
		again.known = true
		l.crowds[c.same] = again
	}
	again.queue = &l.queues[0]
	again.queue.addFirst(&again.place)
	l.countLocked(again, 1)
}

// callContext is the context of a call: as bounded, with a caller's values.
type callContext struct {
	context.Context
	values context.Context
}

func (c *callContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // what finds the one that ends it, too
		return v
	}
	return c.values.Value(key)
}

// contextLocked returns the bound of calls that start now. Those that start within
// an eighth of it share one, and with it a timer.
func (l *lane) contextLocked(now time.Time) context.Context {
	if l.bound == nil || l.boundUntil.Sub(now) < callTimeout || l.bound.Err() != nil {
		l.boundUntil = now.Add(callTimeout + callTimeout/8)
		bound, cancel := context.WithDeadline(context.Background(), l.boundUntil)
		_ = cancel // the deadline ends it
		l.bound = bound
	}
	return l.bound
}

// idle reports whether nothing is under way and nothing waits.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls == 0
}
