package redisbackend

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/list"
)

// line queues the jobs for one server and sends them. A call is one round trip: one script, or on
// a Cluster several scripts in one pipeline. Calls run on goroutines that end when no job waits. A
// call outlives its callers, so that a connection that took too long for them serves the next
// ones.
//
// Jobs gather while calls are under way, and the next call sends them together. Large calls cost
// less for each job. So a line starts few calls: up to freeCalls at once, and above that one every
// callEvery.
//
// Jobs wait in these queues, and a call takes them in this order:
//
//	queues[0]   renewals: a unit that is renewed too late is given to another process
//	queues[1]   takings of keys that are not busy
//	queues[2]   takings of one busy key
//	queues[3]   takings of several busy keys
//	endings     settlements, releases, give-backs: in calls of their own
//
// A key is busy once busyKey jobs wait for it. Suppose that a client floods key A with 1,000
// requests. The first 32 wait in queues[1], the other 968 in queues[2]. A request for key B then
// waits in queues[1], behind 32 requests and not behind 1,000. A call has room for maxWeight = 128
// keys. If all three queues of takings are full, the call takes 112 keys from queues[1], 14 from
// queues[2] and 2 from queues[3], so that each queue advances.
type line struct {
	lines *lines
	name  string // of the server, in the log; "": there is only one

	mu              sync.Mutex
	calls           int       // under way
	begunAt         time.Time // when the latest call began
	queues          [4]list.List[*job]
	weight          int // of all jobs in queues
	endings         list.List[*job]
	endingCalls     int             // calls under way that send endings
	endingsWereLast bool            // the latest call sent endings
	waiting         map[string]int  // how many jobs in queues have a key, by its name
	callCtx         context.Context // of the calls that start now
	callCtxEnds     time.Time
	health
	clock serverClock

	workers   sync.Pool   // of *worker
	timer     *time.Timer // nil: not made yet
	timerRuns bool
	wellAt    atomic.Int64 // latest decision, Unix nanoseconds; negative: it has failed since
}

const (
	// freeCalls is how many calls may be under way without a pause between them.
	freeCalls = 4

	// callEvery is the pause before each further call. A job waits longer only if maxCalls calls
	// are under way.
	callEvery = 500 * time.Microsecond

	// callTimeout is how long a call may take, whatever the deadlines of its callers. It is long
	// enough to connect over a slow network.
	callTimeout = time.Second

	// longestCall is how long a call may really take: calls that start within an eighth of
	// callTimeout share a context.
	longestCall = 9 * callTimeout / 8

	// busyKey is how many jobs must wait for a key to make it busy.
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

// job is what one script is asked about some keys of one server: a taking, settlement, give-back,
// renewal, release or reset. A line sends several jobs in one call. Their callers may leave before
// the answer; the memory of such a job is not used again.
type job struct {
	ctx        context.Context // hooks of the client see its values
	script     *script
	form       string // takings of equal form differ only in their keys
	hasOwnArgs bool   // even jobs of equal form have other arguments
	keys       []string
	args       []any // of the script, about these keys
	instant    int64 // at which the script decides; 0: it reads the server's clock
	priority   priority
	weight     int  // its cost, in keys
	width      int  // how many numbers its reply has
	once       bool // the client must not send it again
	owner      owner

	// Set before it is answered.
	now         int64 // of takings: the instant of the decision
	numbers     []int64
	isPostponed bool // the script had worked for long enough and did not start it
	err         error

	fate atomic.Int32

	// Guarded by the mutex of the line.
	queue    *list.List[*job] // nil: it does not wait
	queuedAt time.Time
	node     list.Node[*job]
}

// owner interprets the reply to a job.
type owner interface {
	// read reads the numbers of the reply. It returns false if the script never replies them.
	read(numbers []int64) bool

	// answer tells the caller. The line does not use the job any more.
	answer()
}

// priority is the order in which a call takes jobs.
type priority uint8

const (
	renewing priority = iota
	taking
	ending
)

// The fate of a job is underWay until it is answered or its caller leaves, whichever comes first.
const (
	underWay int32 = iota
	answered
	abandoned
)

// isAwaited reports whether the caller of j still waits. The line calls it once, before it answers
// j.
func (j *job) isAwaited() bool { return j.fate.CompareAndSwap(underWay, answered) }

// abandon marks j as abandoned by its caller. It returns false if j has been answered.
func (j *job) abandon() bool { return j.fate.CompareAndSwap(underWay, abandoned) }

// submit sends jobs or queues them. It returns an error if the server is down. Otherwise the
// owners are answered later, except for jobs that are withdrawn. Jobs that fit into one call are
// sent in their order.
func (l *line) submit(now time.Time, jobs ...*job) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now)
	if err == nil {
		l.queueLocked(now, probes, jobs...)
	}
	return err
}

// submitInline is submit for one job. If no other job waits, it may return a worker instead: the
// caller then makes the call on its own goroutine, and ctx ends it.
func (l *line) submitInline(ctx context.Context, j *job, now time.Time) (*worker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	probes, err := l.admitLocked(now)
	if err != nil {
		return nil, err
	}
	_, waits := l.nextLocked()
	if !waits && !probes && l.mayCallLocked(now) && l.mayCallInlineLocked(ctx, now) {
		w := l.beginLocked(now)
		w.jobs, w.inline = append(w.jobs, j), true
		return w, nil
	}
	l.queueLocked(now, probes, j)
	return nil, nil
}

// queueLocked queues jobs and starts a call if it may. It always starts a probe.
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

// mayCallLocked reports whether one more call may start. Jobs that fill a call do not wait for
// callEvery.
func (l *line) mayCallLocked(now time.Time) bool {
	return l.calls < l.lines.maxCalls &&
		(l.calls < freeCalls || l.weight >= maxWeight || l.failures > 0 ||
			now.Sub(l.begunAt) >= callEvery)
}

// beginLocked counts a new call and returns a worker for it.
func (l *line) beginLocked(now time.Time) *worker {
	w := l.workers.Get().(*worker)
	if l.calls++; l.calls == 1 {
		l.quietSince = now
	}
	l.begunAt = now
	w.callCtx, w.since = l.contextLocked(now), now
	return w
}

// enqueueLocked queues j. Each busy key moves a taking one queue back: see line.
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

// countLocked adds j to the counts of waiting jobs, or with sign -1 subtracts it. Endings are not
// counted: they return units, so they make no key busy.
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

// nextLocked returns whether the next call sends endings, and whether any waiting job may be sent.
// While others wait, every second call sends endings, one at a time. Otherwise endings may use
// half of all calls.
func (l *line) nextLocked() (ends, waits bool) {
	endingsWait := l.endings.First != nil
	if l.weight > 0 {
		return endingsWait && l.endingCalls == 0 && !l.endingsWereLast, true
	}
	return true, endingsWait && l.endingCalls < (l.lines.maxCalls+1)/2
}

// collectLocked moves waiting jobs to w, as many as one call may send: either endings or all
// others. So no decision waits for a settlement in the same pipeline.
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
			maxOfQueue := maxWeight - (maxWeight-weight)/8 // so that the queues behind advance too
			if i == len(l.queues)-1 {
				maxOfQueue = maxWeight
			}
			collect(&l.queues[i], maxOfQueue)
		}
	}
}

// callOrWaitLocked starts a call for waiting jobs if it may. Jobs that must wait are sent by a
// timer after callEvery: the calls under way may never return if a connection is broken.
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

// withdraw removes j from its queue, so that it is never sent. It returns false if j has been
// sent.
func (l *line) withdraw(j *job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if j.queue == nil {
		return false
	}
	l.unlinkLocked(j)
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
// of callTimeout share it, and with it a timer. A line whose patience is longer than callTimeout
// gives its calls as much time.
func (l *line) contextLocked(now time.Time) context.Context {
	timeout := max(callTimeout, l.lines.patience)
	if l.callCtx == nil || l.callCtxEnds.Sub(now) < timeout || l.callCtx.Err() != nil {
		l.callCtxEnds = now.Add(timeout + callTimeout/8)
		bound, cancel := context.WithDeadline(context.Background(), l.callCtxEnds)
		_ = cancel // the deadline releases the timer
		l.callCtx = bound
	}
	return l.callCtx
}

// idle reports whether no call is under way. Then no job waits.
func (l *line) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls == 0
}
