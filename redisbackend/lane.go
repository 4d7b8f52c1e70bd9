package redisbackend

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/list"
)

// lane queues the requests for one server and makes the calls that decide them. Each call
// runs on a goroutine that ends when there is no more work. A call does not end with its caller:
// it goes on without, and the next call can use the connection that it makes.
//
// Requests gather while calls are under way, and the next call decides them together. The fewer
// calls there are, the more each decides, and the less a decision costs. So a lane has few under
// way, enough that server and client work at the same time, and one more every callEvery.
type lane struct {
	all  *lanes
	name string // of the server, in the log; "": there is only one

	mu         sync.Mutex
	calls      int                // under way
	begunAt    time.Time          // when the latest of them was begun
	queues     [3]list.List[*ask] // of what waits: a request with more busy keys is in a later queue
	waiting    map[string]int     // requests that charge a key, by its name
	weight     int                // of what waits
	bound      context.Context    // of the calls that start now
	boundUntil time.Time
	health
	instants serverInstants

	workers sync.Pool    // of *worker
	watch   *time.Timer  // nil: not made yet
	watched bool         // it runs
	wellAt  atomic.Int64 // when it last decided, in nanoseconds since epoch; negative: has failed since
}

const (
	// freeCalls is how many calls may be under way however lately the latest was begun.
	freeCalls = 4

	// callEvery is how long a request waits for a further call, at most, unless the most are under way.
	callEvery = 500 * time.Microsecond

	// callTimeout is how long a call may take, whatever the deadlines of its callers:
	// long enough to connect over a slow network.
	callTimeout = time.Second

	// busyKey is how many requests wait for a key that is busy: others go first.
	busyKey = 32
)

func newLane(all *lanes, name string) *lane {
	l := &lane{all: all, name: name, waiting: make(map[string]int)}
	l.workers.New = func() any {
		w := &worker{lane: l}
		w.run = w.work
		return w
	}
	return l
}

// decide asks the server and waits for the answer until ctx ends. It reports whether the
// caller owns a again: otherwise a call still uses it.
func (l *lane) decide(ctx context.Context, a *ask) (back bool, err error) {
	since := time.Now()
	inline, err := l.submit(ctx, a, since, true)
	if err != nil {
		return true, err
	}
	if inline == nil {
		return a.wait(ctx, l, since)
	}
	inline.callInline(a)
	if a.err == nil || !l.behind(ctx, since) {
		return true, a.err
	}
	// The process did not run in time. What the call took, if it did, stays taken, but for
	// what it holds: that has been released.
	if a.holds != nil {
		a.reissue()
	}
	if _, err := l.submit(ctx, a, time.Now(), false); err != nil {
		return true, err
	}
	return a.wait(ctx, l, since)
}

// submit sends a or queues it. If mayInline is true it may instead return a worker that is to make the
// call on the goroutine of the caller.
func (l *lane) submit(ctx context.Context, a *ask, now time.Time, mayInline bool) (inline *worker, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now)
	if err != nil {
		return nil, err
	}
	if (l.waits() || !l.mayCallLocked(now)) && !probes { // nobody overtakes those that wait
		l.enqueueLocked(a, now)
		l.watchLocked(now)
		return nil, nil
	}
	if l.calls == 0 {
		l.quietSince = now
	}
	w := l.beginLocked(now)
	w.asks, w.probes = append(w.asks, a), probes
	if w.inline = mayInline && !probes && l.mayCallInline(ctx, now); w.inline {
		return w, nil
	}
	go w.run()
	return nil, nil
}

// mayCallLocked reports whether one more call may be made. Requests that fill a call wait for
// none.
func (l *lane) mayCallLocked(now time.Time) bool {
	return l.calls < l.all.most && (l.calls < freeCalls || l.weight >= maxWeight || l.failures > 0 || now.Sub(l.begunAt) >= callEvery)
}

// beginLocked returns a worker for one more call.
func (l *lane) beginLocked(now time.Time) *worker {
	w := l.workers.Get().(*worker)
	l.calls++
	l.begunAt = now
	w.bound, w.since = l.contextLocked(now), now
	return w
}

// enqueueLocked has a wait to be sent. Each busy key moves it one queue back, so that nobody waits
// behind a client that sends more than Redis can decide.
func (l *lane) enqueueLocked(a *ask, now time.Time) {
	a.queuedAt = now
	busy := 0
	for i := range a.accounts {
		if l.waiting[a.accounts[i].name] >= busyKey {
			busy++
		}
	}
	a.queue = &l.queues[min(busy, len(l.queues)-1)]
	a.queue.Add(&a.node)
	l.countLocked(a, 1)
}

// unlinkLocked has a wait no more.
func (l *lane) unlinkLocked(a *ask) {
	a.queue.Remove(&a.node)
	a.queue = nil
	l.countLocked(a, -1)
}

// countLocked adds to the number of requests that wait for each key of a.
func (l *lane) countLocked(a *ask, by int) {
	l.weight += by * a.weight
	for i := range a.accounts {
		name := a.accounts[i].name
		if l.waiting[name] += by; l.waiting[name] == 0 {
			delete(l.waiting, name)
		}
	}
}

// collectLocked moves waiting requests to w, as many as one call may decide.
func (l *lane) collectLocked(w *worker) {
	weight := 0
	for i := range l.queues {
		most := maxWeight - (maxWeight-weight)/8 // the rest is left for the queues behind, so that they advance too
		if i == len(l.queues)-1 {
			most = maxWeight
		}
		for q := &l.queues[i]; q.First != nil && weight < most; {
			a := q.First.Of
			weight += a.weight
			l.unlinkLocked(a)
			w.asks = append(w.asks, a)
		}
	}
}

// waits reports whether any request waits.
func (l *lane) waits() bool {
	return l.queues[0].First != nil || l.queues[1].First != nil || l.queues[2].First != nil
}

// watchLocked begins a call for waiting requests if it may, and sees to it that the rest is sent
// though no call ends: a connection may be broken, and nobody should wait behind it.
func (l *lane) watchLocked(now time.Time) {
	if l.waits() && l.mayCallLocked(now) {
		w := l.beginLocked(now)
		l.collectLocked(w)
		go w.run()
	}
	if l.watched || l.calls >= l.all.most || !l.waits() {
		return
	}
	l.watched = true
	if l.watch == nil {
		l.watch = time.AfterFunc(callEvery, l.look)
		return
	}
	l.watch.Reset(callEvery)
}

func (l *lane) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched = false
	l.watchLocked(time.Now())
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
	waits := a.queue != nil
	if a.holds != nil && !waits && !a.abandon() {
		<-a.done // it comes just now
		return true, a.err
	}
	if waits {
		l.unlinkLocked(a)
	}
	err = ctx.Err()
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
	return ok && l.answeredIn < deadline.Sub(since) || l.all.late.within(time.Now(), 2*slice) >= lateEnough
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
	timeout := max(callTimeout, l.all.patience)
	if l.bound == nil || l.boundUntil.Sub(now) < timeout || l.bound.Err() != nil {
		l.boundUntil = now.Add(timeout + callTimeout/8)
		bound, cancel := context.WithDeadline(context.Background(), l.boundUntil)
		_ = cancel // the deadline ends it
		l.bound = bound
	}
	return l.bound
}

// explained returns the error of a request, with what may be wrong if the server has never
// answered.
func (l *lane) explained(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.answeredAt.IsZero() {
		return err
	}
	return withoutTLS(err, l.all.client)
}

// idle reports whether nothing is under way and nothing waits.
func (l *lane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls == 0
}
