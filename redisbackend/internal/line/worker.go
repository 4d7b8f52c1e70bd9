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
	yields       bool // before it gathers
	takesEndings bool // the call sends endings
	probes       bool // the call is a probe: it may exceed maxCalls
}

func (w *worker) work() {
	now := time.Now()
	w.line.lines.late.note(now, now.Sub(w.since))
	for len(w.jobs) > 0 || w.gather() {
		if !w.round() {
			return
		}
	}
}

// gather takes what waits for the next call of w. It returns false if w makes no other call, and is
// back in the pool.
//
// Callers that were just answered ask again, one after the other. So w yields first, and takes the
// jobs of all of them. If each started a call of its own, two calls in three would carry a single
// job, and a call costs the server as much as two or three jobs.
func (w *worker) gather() bool {
	l, now := w.line, time.Now()
	if w.yields {
		now = l.lines.late.measure()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathering--
	l.calls--
	ends, waits := l.queue.next(l.lines.maxCalls)
	more := waits && l.mayCallLocked(now)
	if more {
		l.calls++
		w.collectLocked(ends, now)
	} else {
		w.callCtx = nil
		l.workers.Put(w)
	}
	l.callOrWaitLocked(now)
	return more
}

// round makes a call and answers its jobs. It returns false if another goroutine goes on with w.
func (w *worker) round() (goesOn bool) {
	err, exits := error(errExited), true
	defer func() {
		if v := recover(); v != nil { // of a hook of the client
			err, exits = Panicked(v), false
		}
		w.end(err)
		if goesOn = !exits; exits {
			go w.run()
		}
	}()
	w.batches.send(w.context(), &w.line.lines.caller, &w.line.clock, w.jobs)
	err, exits = nil, false
	return true
}

// callInline makes the call of w, which has one job, on the goroutine of the caller. That saves
// two switches of goroutines: a third of the time of a decision outside Redis.
func (w *worker) callInline(done <-chan struct{}) {
	defer func() { <-done }() // even if a hook of the client ends the goroutine
	if w.round() && w.gather() {
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
func (w *worker) collectLocked(ends bool, now time.Time) {
	l := w.line
	w.takesEndings = ends
	w.jobs = l.queue.collect(w.jobs, ends)
	l.begunAt = now
	w.callCtx, w.since = l.contextLocked(now), now
}

// end answers the jobs of a call. A failure that is not nil is the error of the whole call. The call
// counts as under way until w has gathered: then its callers have had time to ask again.
func (w *worker) end(failure error) {
	l, now := w.line, time.Now()
	reached, decided, latest := false, false, failure
	if failure == nil {
		reached, decided, latest = w.batches.outcome()
	}
	var denied []*Job
	l.mu.Lock()
	l.gathering++
	l.health.judge(now, w.since, reached, decided, latest)
	if !reached && !isLate(latest) {
		l.missLocked(w.jobs[0], now)
	}
	w.yields = !w.inline && l.yieldsLocked(now)
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
	clear(w.jobs)
	w.jobs, w.since = w.jobs[:0], now

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range postponed {
		l.queue.add(j, now)
	}
	if w.probes {
		l.health.probing = false
	}
	if w.takesEndings {
		l.queue.endingCalls--
	}
	w.inline, w.probes, w.takesEndings = false, false, false
}
