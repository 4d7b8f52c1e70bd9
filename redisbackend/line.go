package redisbackend

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// line queues the jobs for one server and makes the calls that send them. Each call runs on a
// goroutine that ends when there is no more work. A call does not end with its caller: it goes on
// without, and the next call can use the connection that it makes.
//
// Jobs gather while calls are under way, and the next call sends them together. The fewer calls there
// are, the more each sends, and the less a job costs. So a line has few under way, enough that server
// and client work at the same time, and one more every callEvery.
type line struct {
	lines *lines
	name  string // of the server, in the log; "": there is only one

	mu              sync.Mutex
	calls           int                // under way
	begunAt         time.Time          // when the latest of them was begun
	queues          [4]list.List[*job] // of jobs that wait: renewals, and takings, those with more busy keys behind
	weight          int                // of these
	endings         list.List[*job]    // that wait
	endingCalls     int                // calls under way that are of endings
	endingsWereLast bool               // the latest call was of endings
	waiting         map[string]int     // jobs that have a key, by its name
	callCtx         context.Context    // of the calls that start now
	callCtxEnds     time.Time
	health
	clock serverClock

	workers   sync.Pool    // of *worker
	timer     *time.Timer  // nil: not made yet
	timerRuns bool         // it runs
	wellAt    atomic.Int64 // when it last decided, in nanoseconds since epoch; negative: has failed since
}

const (
	// freeCalls is how many calls may be under way however lately the latest was begun.
	freeCalls = 4

	// callEvery is how long a job waits for a further call, at most, unless the most are under way.
	callEvery = 500 * time.Microsecond

	// callTimeout is how long a call may take, whatever the deadlines of its callers:
	// long enough to connect over a slow network.
	callTimeout = time.Second

	// longestCall is how long it may take: calls that start within an eighth of callTimeout share a
	// context.
	longestCall = 9 * callTimeout / 8

	// busyKey is how many jobs wait for a key that is busy: others go first.
	busyKey = 32
)

func newLine(lines *lines, name string) *line {
	l := &line{lines: lines, name: name, waiting: make(map[string]int)}
	l.workers.New = func() any {
		w := &worker{line: l}
		w.run = w.work
		return w
	}
	return l
}

// job is one question to one server: some keys, and what a script is told of them. Takings, settlements,
// give-backs, renewals and releases are jobs. A line sends them, several in a call. Its caller may
// leave before the answer; then nothing of the job is used again.
type job struct {
	ctx        context.Context // hooks of the client see its values
	script     *script
	form       string // takings of one form differ in their keys only
	hasOwnArgs bool   // it is written apart: its arguments are its own
	keys       []string
	args       []any // of the script, about these keys
	instant    int64 // that the script is given; 0: it uses the server's clock
	priority   priority
	weight     int  // how many keys it counts as in a call
	width      int  // numbers in its reply
	once       bool // the client does not send it again
	owner      owner

	// Set before it is answered.
	now         int64 // the instant at which it was decided; of takings only
	numbers     []int64
	isPostponed bool // the script has left it for another call: it had worked for long enough
	err         error

	fate atomic.Int32

	// Guarded by the mutex of the line.
	queue    *list.List[*job] // that it waits in; nil: it does not wait
	queuedAt time.Time
	node     list.Node[*job]
}

// owner knows what a job means.
type owner interface {
	// read reads the numbers of its reply, and reports whether the script may have replied them.
	read(numbers []int64) bool

	// answer is called once the line is done with the job.
	answer()
}

// priority says which jobs a call takes first.
type priority uint8

const (
	renewing priority = iota // units that are renewed too late are given to others
	taking
	ending
)

// The fates of a job. The first to finish with it changes underWay to another.
const (
	underWay  int32 = iota
	answered        // its caller has the answer
	abandoned       // its caller left first
)

// isAwaited reports whether the caller of j is still there. It is called once, before j is answered.
func (j *job) isAwaited() bool { return j.fate.CompareAndSwap(underWay, answered) }

// abandon is called when the caller of j leaves. It reports whether no answer has come.
func (j *job) abandon() bool { return j.fate.CompareAndSwap(underWay, abandoned) }

// submit sends jobs or queues them. Their owners are answered once that is done, unless there is an error
// or they are withdrawn. What fits into one call is sent in its order.
func (l *line) submit(now time.Time, jobs ...*job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now)
	if err == nil {
		l.queueLocked(now, probes, jobs...)
	}
	return err
}

// submitInline is submit for one job. If nothing waits, it may instead return a worker, which is to make
// the call on the goroutine of the caller, and to end it with ctx.
func (l *line) submitInline(ctx context.Context, j *job, now time.Time) (*worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now)
	if err != nil {
		return nil, err
	}
	if _, waits := l.nextLocked(); !waits && !probes && l.mayCallLocked(now) && l.mayCallInlineLocked(ctx, now) {
		w := l.beginLocked(now)
		w.jobs, w.inline = append(w.jobs, j), true
		return w, nil
	}
	l.queueLocked(now, probes, j)
	return nil, nil
}

// queueLocked queues jobs, and begins a call if one may be made. A probe is made in any case.
func (l *line) queueLocked(now time.Time, probes bool, jobs ...*job) {
	for _, j := range jobs {
		l.enqueueLocked(j, now)
	}
	if probes {
		w := l.beginLocked(now)
		w.probes = true
		ends, _ := l.nextLocked()
		l.collectLocked(w, ends)
		go w.run()
	}
	l.callOrWaitLocked(now)
}

// mayCallLocked reports whether one more call may be made. Jobs that fill a call wait for none.
func (l *line) mayCallLocked(now time.Time) bool {
	return l.calls < l.lines.maxCalls &&
		(l.calls < freeCalls || l.weight >= maxWeight || l.failures > 0 || now.Sub(l.begunAt) >= callEvery)
}

// beginLocked returns a worker for one more call.
func (l *line) beginLocked(now time.Time) *worker {
	w := l.workers.Get().(*worker)
	if l.calls++; l.calls == 1 {
		l.quietSince = now
	}
	l.begunAt = now
	w.callCtx, w.since = l.contextLocked(now), now
	return w
}

// enqueueLocked queues j. Each busy key moves a taking one queue back, so that others do not wait
// behind a client that sends more than Redis can decide.
func (l *line) enqueueLocked(j *job, now time.Time) {
	j.queuedAt, j.node.Of = now, j
	place := 0
	switch j.priority {
	case taking:
		place = 1
		for _, key := range j.keys {
			if l.waiting[key] >= busyKey && place < 3 {
				place++
			}
		}
	}
	j.queue = &l.queues[place]
	if j.priority == ending {
		j.queue = &l.endings
	}
	j.queue.Add(&j.node)
	l.countLocked(j, 1)
}

// unlinkLocked removes j from its queue.
func (l *line) unlinkLocked(j *job) {
	j.queue.Remove(&j.node)
	j.queue = nil
	l.countLocked(j, -1)
}

// countLocked adds to the weight of what waits, and to the number of jobs that wait for each key of j.
// What ends makes no key busy: it gives units back.
func (l *line) countLocked(j *job, sign int) {
	if j.priority == ending {
		return
	}
	l.weight += sign * j.weight
	for _, key := range j.keys {
		if l.waiting[key] += sign; l.waiting[key] == 0 {
			delete(l.waiting, key)
		}
	}
}

// nextLocked reports whether the next call is of endings, and whether one of the waiting jobs may be sent.
// Endings have every second call, one at a time, while others wait; else they have half of all calls.
func (l *line) nextLocked() (ends, waits bool) {
	endingsWait := l.endings.First != nil
	if l.weight > 0 {
		return endingsWait && l.endingCalls == 0 && !l.endingsWereLast, true
	}
	return true, endingsWait && l.endingCalls < (l.lines.maxCalls+1)/2
}

// collectLocked moves waiting jobs to w, as many as one call may send: endings, or all others. So no
// decision waits for a settlement in the same pipeline.
func (l *line) collectLocked(w *worker, ends bool) {
	weight := 0
	collect := func(q *list.List[*job], maxOfQueue int) {
		for q.First != nil && weight < maxOfQueue {
			j := q.First.Of
			weight += j.weight
			l.unlinkLocked(j)
			w.jobs = append(w.jobs, j)
		}
	}
	w.takesEndings, l.endingsWereLast = ends, ends
	if ends {
		collect(&l.endings, maxWeight)
		l.endingCalls++
	} else {
		for i := range l.queues {
			maxOfQueue := maxWeight - (maxWeight-weight)/8 // the rest is left for the queues behind, so that they advance too
			if i == len(l.queues)-1 {
				maxOfQueue = maxWeight
			}
			collect(&l.queues[i], maxOfQueue)
		}
	}
}

// watchLocked begins a call for waiting jobs if it may. A timer begins another one for the rest: the calls
// under way may never end, since a connection may be broken.
func (l *line) callOrWaitLocked(now time.Time) {
	ends, waits := l.nextLocked()
	if waits && l.mayCallLocked(now) {
		w := l.beginLocked(now)
		l.collectLocked(w, ends)
		go w.run()
		_, waits = l.nextLocked()
	}
	if !waits || l.timerRuns || l.calls >= l.lines.maxCalls {
		return
	}
	l.timerRuns = true
	if l.timer == nil {
		l.timer = time.AfterFunc(callEvery, l.onTimer)
		return
	}
	l.timer.Reset(callEvery)
}

func (l *line) onTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timerRuns = false
	l.callOrWaitLocked(time.Now())
}

// withdraw reports whether j still waits, and removes it then: its script does not run.
func (l *line) withdraw(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.queue == nil {
		return false
	}
	l.unlinkLocked(j)
	return true
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
// within an eighth of callTimeout share it, and with it a timer. A line with the patience
// for more than callTimeout gives its calls as much.
func (l *line) contextLocked(now time.Time) context.Context {
	timeout := max(callTimeout, l.lines.patience)
	if l.callCtx == nil || l.callCtxEnds.Sub(now) < timeout || l.callCtx.Err() != nil {
		l.callCtxEnds = now.Add(timeout + callTimeout/8)
		bound, cancel := context.WithDeadline(context.Background(), l.callCtxEnds)
		_ = cancel // the deadline ends it
		l.callCtx = bound
	}
	return l.callCtx
}

// idle reports whether nothing is under way and nothing waits.
func (l *line) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls == 0
}
