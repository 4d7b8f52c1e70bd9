package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// worker makes the calls of a line one after the other, on a goroutine of its own, until
// no job waits.
type worker struct {
	line         *line
	run          func() // work; a method value made once, so that go allocates nothing
	jobs         []*job
	batches      batches
	callCtx      context.Context // of the call
	since        time.Time
	inline       bool // it makes the call on the goroutine of the caller
	takesEndings bool // the call is of endings
	probes       bool // it was started above the limit of calls, and ends after one
}

// panicked returns the error of a panic below the client. go-redis itself panics at a length that
// no memory has, in what it reads besides the replies of scripts.
func panicked(v any) error {
	if err, ok := v.(runtime.Error); ok && strings.Contains(err.Error(), "makeslice") {
		return errLength
	}
	return fmt.Errorf("panic in a hook of the client: %v", v)
}

var errLength = errors.New("the server replied with an impossible length: is it Redis?")

var errExited = errors.New("a hook of the client ended the goroutine by runtime.Goexit")

func (w *worker) work() {
	now := time.Now()
	w.line.lines.late.note(now, now.Sub(w.since))
	for w.round() {
	}
}

// round makes a call and answers its jobs. It reports whether w has another call to make. If it
// has not, w has been pooled.
func (w *worker) round() (more bool) {
	err, exits := error(errExited), true
	defer func() {
		if v := recover(); v != nil { // of a hook of the client
			err, exits = panicked(v), false
		}
		if more = w.end(err); more && exits {
			go w.run()
		}
	}()
	w.line.send(w.context(), &w.batches, w.jobs)
	err, exits = nil, false
	return false // w.end says
}

// callInline makes the call of w, which is for one job alone, on the goroutine of the caller. That saves
// two switches of goroutines, a third of the time that a decision takes besides Redis.
func (w *worker) callInline(done <-chan struct{}) {
	defer func() { <-done }() // also if a hook of the client ends the goroutine
	if w.round() {
		go w.run()
	}
}

// fastAnswer is the longest answer of a server that inline calls are made to. The time of
// a caller then suffices for a new connection, too.
const fastAnswer = 2 * time.Millisecond

// mayCallInlineLocked reports whether the caller may make a call inline. Such a call ends when the caller
// would leave.
func (l *line) mayCallInlineLocked(ctx context.Context, now time.Time) bool {
	if ctx.Done() == nil {
		return true // it waits as long as the client does in any case
	}
	_, ends := ctx.Deadline()
	return ends && l.lines.endsOnTime && l.answeredFast && l.lines.late.within(now, time.Second) == 0
}

// context returns the context of a call, with the values of its first job's context.
func (w *worker) context() context.Context {
	first := w.jobs[0].ctx
	switch {
	case w.inline:
		return first
	case first == context.Background():
		return w.callCtx
	}
	return &callContext{w.callCtx, first}
}

// end answers the jobs of a call and reports whether w has another call to make. failure, if not
// nil, is the error of the whole call.
//
// The order is worth a quarter of the rate: answers first, then a yield, then what waits is collected. A
// call counts as under way until its callers have their answers and may have asked again. Else each of
// those who ask again begins a call of its own.
func (w *worker) end(failure error) (more bool) {
	l, now := w.line, time.Now()
	reached, decided, latest := false, false, failure
	if failure == nil {
		reached, decided, latest = w.batches.outcome()
	}
	var denied []*takeJob
	l.mu.Lock()
	l.judgeLocked(now, w.since, reached, decided, latest)
	yields := !w.inline && l.yieldsLocked(now)
	if failure == nil && l.weight >= busyKey {
		denied = l.denyWaitingLocked(w.jobs, w.since)
	}
	l.mu.Unlock()

	for _, t := range denied {
		t.answer()
	}
	var postponed []*job
	for _, j := range w.jobs {
		if failure != nil {
			j.err = failure
		}
		if j.isPostponed && j.err == nil && j.fate.Load() == underWay {
			postponed = append(postponed, j)
		} else {
			j.owner.answer()
		}
	}
	w.batches.reset()
	if yields {
		now = l.lines.late.measure() // yields, and notes for how long
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	clear(w.jobs)
	w.jobs = w.jobs[:0]
	for _, j := range postponed {
		l.enqueueLocked(j, now)
	}
	if w.probes {
		l.probing, w.probes = false, false
	}
	w.inline = false
	l.calls--
	if w.takesEndings {
		l.endingCalls--
	}
	w.takesEndings = false
	if ends, waits := l.nextLocked(); waits && l.mayCallLocked(now) {
		l.collectLocked(w, ends)
		l.calls++
		l.begunAt = now
		w.callCtx, w.since = l.contextLocked(now), now
		return true
	}
	l.callOrWaitLocked(now)
	w.callCtx = nil
	l.workers.Put(w)
	return false
}

// yieldsLocked reports whether a worker should yield before it collects waiting jobs:
// callers that have just been answered may ask again. If goroutines already wait to run,
// the worker would be the last of them, and should not.
func (l *line) yieldsLocked(now time.Time) bool {
	return l.weight < maxWeight/2 && l.lines.late.within(now, 2*slice) == 0
}

// endsCallsOnTime reports whether all calls of a client end at the deadline of their
// context, whatever they are waiting for.
func endsCallsOnTime(client redis.Scripter) bool {
	c, ok := client.(*redis.Client)
	if !ok {
		return false
	}
	o := c.Options()
	return o.ContextTimeoutEnabled && o.OnConnect == nil && o.Limiter == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}
