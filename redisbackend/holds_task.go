package redisbackend

import "time"

// task is what has to be done for holds: renewals or releases. Each has a goroutine of its
// own, so that releases to a server that is slow or silent never delay a renewal: units that
// are renewed too late are given to others. A timer starts the goroutine when something is
// due, and it ends when nothing is, so there is nothing to close.
type task struct {
	run      func()
	maxWait  time.Duration // after an attempt that a server did not answer
	timer    *time.Timer
	wakesAt  time.Time // when the timer fires; zero: it does not
	running  bool
	failures int // attempts in a row that a server did not answer
	retryAt  time.Time
}

// maxRetryWait is the longest wait after an attempt that a server did not answer. For
// renewals it is at most a thirtieth of HoldTime, since those of other servers wait, too.
const maxRetryWait = time.Second

// wakeLocked has the goroutine of a task start at an instant at the latest.
func (h *holds) wakeLocked(t *task, now, at time.Time) {
	if t.failures > 0 && at.Before(t.retryAt) {
		at = t.retryAt
	}
	if t.running || h.closed || !t.wakesAt.IsZero() && !at.Before(t.wakesAt) {
		return
	}
	t.wakesAt = at
	if t.timer == nil {
		t.timer = time.AfterFunc(at.Sub(now), t.run)
		return
	}
	t.timer.Reset(at.Sub(now))
}

// perform makes attempts until there is nothing to do. attempt then sets running to false.
func (h *holds) perform(t *task, attempt func(now time.Time) (answered, any bool)) {
	h.mu.Lock()
	t.wakesAt = time.Time{}
	if t.running || h.closed {
		h.mu.Unlock()
		return
	}
	t.running = true
	h.mu.Unlock()
	for {
		answered, any := attempt(time.Now())
		if !any {
			return
		}
		h.noteAttempt(t, answered)
	}
}

// mayTryLocked reports whether an attempt may be made now.
func (h *holds) mayTryLocked(t *task, now time.Time) bool {
	return !h.closed && (t.failures == 0 || !now.Before(t.retryAt))
}

// noteAttempt sets the wait after an attempt. A success ends it.
func (h *holds) noteAttempt(t *task, answered bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered {
		t.failures = 0
		return
	}
	t.failures++
	t.retryAt = time.Now().Add(min(t.maxWait, 50*time.Millisecond<<min(t.failures-1, 10)))
}

// stop has the task start no more.
func (t *task) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}
