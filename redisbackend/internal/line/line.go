package line

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Line sends the jobs for one server. A call is one round trip: one script, or on a Cluster several
// scripts in one pipeline. Calls run on goroutines that end when no job waits. A call outlives its
// callers, so that a connection that took too long for them serves the next ones.
//
// Jobs gather while calls are under way, and the next call sends them together: see queue. Large
// calls cost less for each job: a call costs the server as much as three further jobs. So a line
// starts few calls: up to freeCalls at once, or fastCalls to a fast server, and above that one every
// callEvery.
type Line struct {
	lines  *Lines
	server *redis.Client // nil: there is only one

	mu          sync.Mutex
	calls       int       // under way, or about to be
	gathering   int       // of these: a worker is about to take what waits
	begunAt     time.Time // when the latest call began
	queue       Queue
	health      *health
	callCtx     context.Context // of the calls that start now
	callCtxEnds time.Time
	clock       serverClock
	sources     sources

	workers   sync.Pool   // of *worker
	timer     *time.Timer // nil: not made yet
	timerRuns bool
}

const (
	// freeCalls is how many calls may be under way without a pause between them.
	freeCalls = 4

	// fastCalls is the same for a server whose latest answer was fast: one call is on the server
	// while the callers of the other ask again.
	fastCalls = 2

	// callEvery is the pause before each further call. A job waits longer only if maxCalls calls
	// are under way.
	callEvery = 500 * time.Microsecond
)

// newLine returns the line to a server of several, or to the only one if server is nil.
func newLine(lines *Lines, server *redis.Client) *Line {
	name := ""
	if server != nil {
		name = server.Options().Addr
	}
	l := &Line{
		lines: lines, server: server, queue: Queue{waiting: make(map[string]int)},
		health: newHealth(name, lines.Patience, &lines.late, lines.Logger),
	}
	l.workers.New = func() any {
		w := &worker{line: l, batches: batches{sources: &l.sources}}
		w.run = w.work
		return w
	}
	return l
}

// Submit sends jobs or queues them. It returns an error if the server is down. Otherwise the
// owners are answered later, except for jobs that are withdrawn. Jobs that fit into one call are
// sent in their order.
func (l *Line) Submit(now time.Time, jobs ...*Job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now, jobs[0])
	if err == nil {
		l.queueLocked(now, probes, jobs...)
	}
	return err
}

// submitInline is submit for one job. If no other job waits and at most one call is under way, it
// may return a worker instead: the caller then makes the call on its own goroutine, and ctx ends it.
// More calls of one job each would cost the server more than one call of all jobs.
func (l *Line) submitInline(ctx context.Context, j *Job, now time.Time) (*worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now, j)
	if err != nil {
		return nil, err
	}
	_, waits := l.queue.next(l.lines.maxCalls)
	if !waits && !probes && l.calls <= 1 && l.mayCallLocked(now) && l.mayCallInlineLocked(ctx, now) {
		w := l.beginLocked(now)
		w.jobs, w.inline = append(w.jobs, j), true
		l.begunAt = now
		return w, nil
	}
	l.queueLocked(now, probes, j)
	return nil, nil
}

// admitLocked is [health.admit] for jobs, of which j is the first. While the server is down, the
// others are asked who has replaced it.
func (l *Line) admitLocked(now time.Time, j *Job) (probes bool, err error) {
	probes, err = l.health.admit(now, l.countLocked())
	if l.health.down {
		l.missLocked(j, now)
	}
	return probes, err
}

// missLocked notes that the server of j cannot be reached.
func (l *Line) missLocked(j *Job, now time.Time) {
	if t := l.lines.topology; t != nil {
		t.miss(l.server, j.Keys[0], now)
	}
}

// queueLocked queues jobs and starts a call if it may. It always starts a probe.
func (l *Line) queueLocked(now time.Time, probes bool, jobs ...*Job) {
	for _, j := range jobs {
		l.queue.add(j, now)
	}
	if probes {
		w := l.beginLocked(now)
		w.probes = true
		ends, _ := l.queue.next(l.lines.maxCalls)
		w.collectLocked(ends, now)
		go w.run()
	}
	l.callOrWaitLocked(now)
}

// countLocked returns the number of calls for health.
func (l *Line) countLocked() callCount { return callCount{l.calls, l.lines.maxCalls} }

// mayCallLocked reports whether one more call may start. Jobs that fill a call do not wait for
// callEvery.
func (l *Line) mayCallLocked(now time.Time) bool {
	return l.calls < l.lines.maxCalls &&
		(l.calls < l.freeLocked() || l.queue.weight >= MaxWeight || l.health.failures > 0 ||
			now.Sub(l.begunAt) >= callEvery)
}

// freeLocked returns how many calls may be under way without a pause between them.
func (l *Line) freeLocked() int {
	if l.health.answeredFast {
		return fastCalls
	}
	return freeCalls
}

// mayCallInlineLocked reports whether a caller with this context may make its call inline. Such a
// call must end when the caller would leave.
func (l *Line) mayCallInlineLocked(ctx context.Context, now time.Time) bool {
	if ctx.Done() == nil {
		return true // the caller waits as long as the client does
	}
	_, ends := ctx.Deadline()
	return ends && l.lines.endsOnTime && l.health.answeredFast &&
		l.lines.late.within(now, time.Second) == 0
}

// beginLocked counts a new call and returns a worker for it.
func (l *Line) beginLocked(now time.Time) *worker {
	w := l.workers.Get().(*worker)
	l.calls++
	l.health.begun(now, l.calls == 1)
	w.callCtx, w.since = l.contextLocked(now), now
	return w
}

// callOrWaitLocked starts a worker for waiting jobs if it may and none is about to take them. Jobs
// that must wait are sent by a timer after callEvery: the calls under way may never return if a
// connection is broken.
func (l *Line) callOrWaitLocked(now time.Time) {
	if _, waits := l.queue.next(l.lines.maxCalls); !waits {
		return
	}
	if l.queue.weight < l.gathering*MaxWeight {
		return // workers are about to take them
	}
	if l.mayCallLocked(now) {
		ends, _ := l.queue.next(l.lines.maxCalls)
		w := l.beginLocked(now)
		if l.calls == 1 { // no caller was just answered who may ask again
			w.collectLocked(ends, now)
			go w.run()
			l.callOrWaitLocked(now) // for what this call does not take
			return
		}
		w.yields = l.yieldsLocked(now)
		l.gathering++
		go w.run()
		return
	}
	if l.timerRuns || l.calls >= l.lines.maxCalls {
		return
	}
	l.timerRuns = true
	if l.timer == nil {
		l.timer = time.AfterFunc(callEvery, l.onTimer)
		return
	}
	l.timer.Reset(callEvery)
}

// yieldsLocked reports whether a worker should yield before it gathers. If other goroutines already
// wait to run, the worker would run last, and should not yield.
func (l *Line) yieldsLocked(now time.Time) bool {
	return l.queue.weight < MaxWeight/2 && l.lines.late.within(now, 2*slice) == 0
}

func (l *Line) onTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timerRuns = false
	l.callOrWaitLocked(time.Now())
}

// Withdraw removes j from its queue, so that it is never sent. It returns false if j has been
// sent.
func (l *Line) Withdraw(j *Job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.queue == nil {
		return false
	}
	l.queue.remove(j)
	return true
}

// callContext ends with a call, and has the values of a caller's context.
type callContext struct {
	context.Context
	values context.Context
}

func (c *callContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil { // package context finds parents by a value
		return v
	}
	return c.values.Value(key)
}

// contextLocked returns the context of the calls that start now. Calls that start within an eighth
// of CallTimeout share it, and with it a timer. A line whose patience is longer than CallTimeout
// gives its calls as much time.
func (l *Line) contextLocked(now time.Time) context.Context {
	timeout := max(CallTimeout, l.lines.Patience)
	if l.callCtx == nil || l.callCtxEnds.Sub(now) < timeout || l.callCtx.Err() != nil {
		l.callCtxEnds = now.Add(timeout + CallTimeout/8)
		bound, cancel := context.WithDeadline(context.Background(), l.callCtxEnds)
		_ = cancel // the deadline releases the timer
		l.callCtx = bound
	}
	return l.callCtx
}

// idle reports whether no call is under way. Then no job waits.
func (l *Line) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls == 0
}

// Decide sends j and waits for the answer until ctx ends. owned is false if a call may still use
// j.
func (l *Line) Decide(ctx context.Context, j *Job) (owned bool, err error) {
	since := time.Now()
	inline, err := l.submitInline(ctx, j, since)
	if err != nil {
		return true, err
	}
	if inline == nil {
		return l.await(ctx, j, since)
	}
	inline.callInline(j.Replied)
	if j.Err == nil || !l.shouldWaitOn(ctx, since) {
		return true, j.Err
	}
	// This process ran late, so j is sent again. Units that the first call took stay taken, except
	// for those of concurrency limits: they are being released.
	j.fate.Store(underWay)
	j.Owner.(reissuer).Reissue()
	if err := l.Submit(time.Now(), j); err != nil {
		return true, err
	}
	return l.await(ctx, j, since)
}

// await waits until ctx ends for the answer to j, which was submitted at since.
func (l *Line) await(ctx context.Context, j *Job, since time.Time) (owned bool, err error) {
	select {
	case <-j.Replied:
		return true, j.Err
	case <-ctx.Done():
	}
	for l.shouldWaitOn(ctx, since) {
		timer := time.NewTimer(slice)
		select {
		case <-j.Replied:
			timer.Stop()
			return true, j.Err
		case <-timer.C:
		}
	}
	if l.Withdraw(j) {
		return true, l.unanswered(ctx, since, true)
	}
	if !j.abandon() {
		<-j.Replied // answered at the same moment
		return true, j.Err
	}
	return false, l.unanswered(ctx, since, false)
}

// unanswered returns the error of a job, submitted at since, whose context has ended. waited is
// true if the job was never sent.
func (l *Line) unanswered(ctx context.Context, since time.Time, waited bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := ctx.Err()
	if l.health.answeredAt.After(since) && (waited || l.health.timely(ctx, since)) {
		return spared{fmt.Errorf("%w: %w", errBusy, err)}
	}
	if l.health.latest != nil {
		err = fmt.Errorf("%w; the latest failure was: %w", err, l.health.latest)
	}
	return err
}

// shouldWaitOn reports whether a request should wait on although ctx has ended: this process runs
// late, and the server answers others.
func (l *Line) shouldWaitOn(ctx context.Context, since time.Time) bool {
	return l.lines.late.excuses(ctx, since, func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.health.answeredAt
	})
}

// errBusy is part of the error of a request that waited too long while the server answered others
// in time. That is load, and no failure of the server.
var errBusy = errors.New(
	"too many requests wait for the server, which answers others in time: raise the time budget")

// WithoutTLS returns err with advice if the server has never answered.
func (l *Line) WithoutTLS(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.health.answeredAt.IsZero() {
		return WithoutTLS(err, l.lines.caller.client)
	}
	return err
}
