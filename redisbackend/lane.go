package redisbackend

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/list"
)

// lane queues the requests for one server and makes the calls that decide them. The
// number of calls under way is bounded; other requests wait, and the next call decides
// them. Each call runs on a goroutine that ends when there is no more work. A call does
// not end with its caller: it goes on without, and the next call can use the connection
// that it makes.
type lane struct {
	client     redis.Scripter
	once       bool   // the client would send calls again, see unrepeated.go
	name       string // of the server, in the log; "": there is only one
	most       int    // calls under way
	endsOnTime bool   // the client ends calls at the deadline of their context
	logger     *slog.Logger

	patience time.Duration // quietFor

	mu         sync.Mutex
	calls      int
	weight     int                   // of what waits
	queues     [3]list.List[*bundle] // of what waits: a bundle with more busy keys is in a later queue
	waiting    map[string]int        // bundles that charge a key, by its name
	bundles    map[batchKey]*bundle
	bound      context.Context // of the calls that start now
	boundUntil time.Time
	health

	workers     sync.Pool                    // of *worker
	late        *lateness                    // of the process
	watch       *time.Timer                  // nil: not made yet
	watched     bool                         // it runs
	partitioner *atomic.Pointer[partitioner] // loads nil if one call can decide all keys
	wellAt      atomic.Int64                 // when it last decided, in nanoseconds since epoch; negative: has failed since
}

const (
	// callTimeout is how long a call may take, whatever the deadlines of its callers:
	// long enough to connect over a slow network.
	callTimeout = time.Second

	// busyKey is how many bundles wait for a key that is busy: others go first.
	busyKey = 32
)

func newLane(client redis.Scripter, name string, most int, logger *slog.Logger, late *lateness) *lane {
	l := &lane{client: client, name: name, most: most, logger: logger, patience: quietFor, late: late, waiting: make(map[string]int), bundles: make(map[batchKey]*bundle)}
	l.workers.New = func() any {
		w := &worker{lane: l}
		w.run = w.work
		return w
	}
	return l
}

// decide asks the server and waits for the answer until ctx ends. It reports whether the
// caller owns a again: otherwise a call still uses it.
func (l *lane) decide(ctx context.Context, a *ask, accounts []account) (back bool, err error) {
	since := time.Now()
	inline, err := l.submit(ctx, a, accounts, since, true)
	if err != nil {
		return true, err
	}
	if inline == nil {
		return a.wait(ctx, l, since)
	}
	err = inline.callInline(a)
	if err == nil || !l.behind(ctx, since) {
		return true, err
	}
	// The process did not run in time. What the call took, if it did, stays taken, but for
	// what it holds: that has been released.
	if a.holds != nil {
		a.reissue(accounts)
	}
	if _, err := l.submit(ctx, a, accounts, time.Now(), false); err != nil {
		return true, err
	}
	return a.wait(ctx, l, since)
}

// submit sends a or queues it. If mayInline is true it may instead return a worker that is to make the
// call on the goroutine of the caller.
func (l *lane) submit(ctx context.Context, a *ask, accounts []account, now time.Time, mayInline bool) (inline *worker, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now)
	if err != nil {
		return nil, err
	}
	if l.calls >= l.allowedLocked(now) && !probes {
		l.enqueueLocked(a, accounts)
		l.watchLocked()
		return nil, nil
	}
	if l.calls++; l.calls == 1 {
		l.quietSince = now
	}
	a.sent = true
	w := l.workers.Get().(*worker)
	w.bundles = append(w.bundles, newBundle(a))
	w.probes, w.since = probes, now
	if w.inline = mayInline && !probes && l.mayCallInline(ctx, now); w.inline {
		return w, nil
	}
	w.bound = l.contextLocked(now)
	go w.run()
	return nil, nil
}

// withdraw ends the wait of a, which began at since, because ctx has ended. A request
// that has not been sent takes nothing. One that has been sent may still take its units,
// and nobody reads its reply.
func (l *lane) withdraw(a *ask, ctx context.Context, since time.Time) (back bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-a.done:
		return true, a.err // answered just now
	default:
	}
	if a.holds != nil && a.sent && !a.abandon() {
		<-a.done // it comes just now
		return true, a.err
	}
	err = ctx.Err()
	waits := a.bundle != nil && !a.sent
	if waits {
		c := a.bundle
		if c.asks.Size == 1 {
			l.unlinkLocked(c)
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

// timelyLocked reports whether the server answers calls in less time than ctx gave a
// request that has waited since an instant, or this process runs too late to tell.
func (l *lane) timelyLocked(ctx context.Context, since time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && l.answeredIn < deadline.Sub(since) || l.late.within(time.Now(), 2*slice) >= lateEnough
}

// callContext is the context of a call: it ends with the call, and has the values of a
// caller.
type callContext struct {
	context.Context
	values context.Context
}

func (c *callContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // package context finds the parent by a value
		return v
	}
	return c.values.Value(key)
}

// contextLocked returns a context that ends the calls that start now. Calls that start
// within an eighth of callTimeout share it, and with it a timer. A lane with the patience
// for more than callTimeout gives its calls as much.
func (l *lane) contextLocked(now time.Time) context.Context {
	timeout := max(callTimeout, l.patience)
	if l.bound == nil || l.boundUntil.Sub(now) < timeout || l.bound.Err() != nil {
		l.boundUntil = now.Add(timeout + callTimeout/8)
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
