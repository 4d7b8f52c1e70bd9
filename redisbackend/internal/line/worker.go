package line

import (
	"context"
	"time"
)

// worker makes the calls of a line one after the other until no job waits. It runs on a goroutine
// of its own, or for one call on that of a caller.
type worker struct {
	line         *Line
	run          func() // w.work: a method value made once, so that go statements allocate nothing
	jobs         []*Job
	batches      batches
	callCtx      context.Context
	since        time.Time
	inline       bool // the call runs on the goroutine of the caller
	takesEndings bool // the call sends endings
	probes       bool // the call is a probe: it may exceed maxCalls
}

func (w *worker) work() {
	now := time.Now()
	w.line.lines.late.note(now, now.Sub(w.since))
	for w.round() {
	}
}

// round makes a call and answers its jobs. It reports whether w has another call to make.
// Otherwise w is back in the pool.
func (w *worker) round() (more bool) {
	err, exits := error(errExited), true
	defer func() {
		if v := recover(); v != nil { // of a hook of the client
			err, exits = Panicked(v), false
		}
		if more = w.end(err); more && exits {
			go w.run()
		}
	}()
	w.batches.send(w.context(), &w.line.lines.caller, &w.line.clock, w.jobs)
	err, exits = nil, false
	return false // the deferred function sets it
}

// callInline makes the call of w, which has one job, on the goroutine of the caller. That saves
// two switches of goroutines: a third of the time of a decision outside Redis.
func (w *worker) callInline(done <-chan struct{}) {
	defer func() { <-done }() // even if a hook of the client ends the goroutine
	if w.round() {
		go w.run()
	}
}

// context returns the context of a call. Hooks of the client see the values of its first job.
func (w *worker) context() context.Context {
	first := w.jobs[0].Ctx
	switch {
	case w.inline:
		return first
	case first == context.Background():
		return w.callCtx
	}
	return &callContext{w.callCtx, first}
}

// collectLocked takes waiting jobs for the next call: endings, or all others.
func (w *worker) collectLocked(ends bool) {
	w.takesEndings = ends
	w.jobs = w.line.queue.collect(w.jobs, ends)
}

// end answers the jobs of a call and reports whether w has another call to make. A failure that is
// not nil is the error of the whole call.
//
// The order is worth a quarter of the throughput: answer, yield, then collect waiting jobs. The
// call counts as under way until its callers have had time to ask again. Otherwise each of them
// would start a call of its own.
func (w *worker) end(failure error) (more bool) {
	l, now := w.line, time.Now()
	reached, decided, latest := false, false, failure
	if failure == nil {
		reached, decided, latest = w.batches.outcome()
	}
	var denied []*Job
	l.mu.Lock()
	l.health.judge(now, w.since, reached, decided, latest)
	if !reached && !isLate(latest) {
		l.missLocked(w.jobs[0], now)
	}
	yields := !w.inline && w.yieldsLocked(now)
	if failure == nil && l.queue.weight >= busyKey {
		denied = l.lines.deny(&l.queue, w.jobs, w.since)
	}
	l.mu.Unlock()

	for _, j := range denied {
		j.Owner.Answer()
	}
	var postponed []*Job
	for _, j := range w.jobs {
		if failure != nil {
			j.Err = failure
		}
		if j.isPostponed && j.Err == nil && j.fate.Load() == underWay {
			postponed = append(postponed, j)
		} else {
			j.Owner.Answer()
		}
	}
	w.batches.reset()
	if yields {
		now = l.lines.late.measure()
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	clear(w.jobs)
	w.jobs = w.jobs[:0]
	for _, j := range postponed {
		l.queue.add(j, now)
	}
	if w.probes {
		l.health.probing, w.probes = false, false
	}
	w.inline = false
	l.calls--
	if w.takesEndings {
		l.queue.endingCalls--
	}
	w.takesEndings = false
	if ends, waits := l.queue.next(l.lines.maxCalls); waits && l.mayCallLocked(now) {
		w.collectLocked(ends)
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

// yieldsLocked reports whether a worker should yield before it collects waiting jobs, so that
// callers that were just answered may ask again. If other goroutines already wait to run, the
// worker would run last, and should not yield.
func (w *worker) yieldsLocked(now time.Time) bool {
	return w.line.queue.weight < MaxWeight/2 && w.line.lines.late.within(now, 2*slice) == 0
}
