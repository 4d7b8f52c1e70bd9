package interleave

import (
	"time"
	"unsafe"
)

// now is the time of the present run.
var now time.Time

// Now returns the time. It begins at [Start] in each run, and [Advance] alone changes it.
//
//go:norace
func Now() time.Time {
	Step(unsafe.Pointer(&now), Reads, nil)
	return now
}

// Start is the time at which each run begins.
var Start = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// Advance moves the time on, and begins a task for each timer that is due.
//
//go:norace
func Advance(d time.Duration) {
	Step(unsafe.Pointer(&now), Writes, nil)
	now = now.Add(d)
	left := running.timers[:0]
	for _, t := range running.timers {
		if t.at.After(now) {
			left = append(left, t)
		} else {
			Go(t.fire)
		}
	}
	running.timers = left
}

// Go replaces a go statement: it begins a task. In the setup of a run, the task is a function that
// [Settle] runs.
//
//go:norace
func Go(f func()) {
	if running.current < 0 {
		running.later = append(running.later, f)
		return
	}
	running.add(f)
}

// Settle runs what [Go] has put off, in the setup of a run.
func Settle() {
	for len(running.later) > 0 {
		f := running.later[0]
		running.later = running.later[1:]
		f()
	}
}

// Timer replaces a time.Timer of time.AfterFunc.
type Timer struct {
	at      time.Time
	f       func()
	stopped bool
}

// AfterFunc replaces time.AfterFunc.
//
//go:norace
func AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{at: Now().Add(d), f: f}
	running.timers = append(running.timers, t)
	return t
}

//go:norace
func (t *Timer) fire() {
	Step(unsafe.Pointer(t), Writes, nil)
	if !t.stopped {
		t.f()
	}
}

// Stop prevents a call of f that has not begun.
//
//go:norace
func (t *Timer) Stop() {
	Step(unsafe.Pointer(t), Writes, nil)
	t.stopped = true
}
