package remote

import (
	"sync"
	"sync/atomic"
	"time"
)

// circuit opens when decisions keep failing. While it is open, it admits one probe at a time. For
// example the budget is 50 ms, OpenFor 1 s, and every decision fails from 0 ms on:
//
//	  50 ms   first failure
//	 250 ms   five failures in a row over four budgets: the circuit opens
//	1250 ms   the next decision is a probe, and fails
//	2300 ms   the next probe succeeds: the circuit closes
type circuit struct {
	budget, openFor time.Duration
	log             breakerLog
	status          atomic.Pointer[status]

	mu            sync.Mutex
	window        [parts]part
	failingSince  time.Time // first failure in the window
	failuresInRow int       // failures since the latest success
	inRowSince    time.Time // the first of these
	probeAfter    time.Time // while the circuit is open
	probing       bool
}

// status is the state of a circuit. It is immutable: a change of state makes another.
type status struct {
	open   bool
	since  time.Time
	opened int64 // how often the circuit has opened
}

// part counts the decisions in a tenth of the window.
type part struct {
	number            int64 // from 0 at the latest change of state
	succeeded, failed int
}

const parts = 10

func (c *circuit) isOpen() bool { return c.status.Load().open }

// admit returns the status under which a decision may be made now, or nil if it may not. The
// decision must be recorded.
func (c *circuit) admit() *status {
	if s := c.status.Load(); !s.open {
		return s
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.status.Load()
	if s.open && (c.probing || !time.Now().After(c.probeAfter)) {
		return nil
	}
	c.probing = s.open
	return s
}

// record records the end of a decision that was admitted under s. It ignores decisions from before
// a change of state. After a probe that does not count, another may follow at once.
func (c *circuit) record(s *status, err error, counts bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s != c.status.Load() {
		return
	}
	c.probing = false
	if !counts {
		return
	}
	now := time.Now()
	c.log.decided(err, c.partLasts())
	switch {
	case s.open && err != nil:
		c.probeAfter = now.Add(c.openFor)
	case s.open || c.keepsFailingLocked(err, now, s.since):
		c.changeLocked(s, err, now)
	}
}

// changeLocked closes the circuit if it was open in s, and opens it otherwise.
func (c *circuit) changeLocked(s *status, err error, now time.Time) {
	next := &status{!s.open, now, s.opened}
	if next.open {
		next.opened++
		c.probeAfter = now.Add(c.openFor)
	}
	c.window, c.failuresInRow = [parts]part{}, 0
	c.status.Store(next)
	c.log.changed(next.open, err, now.Sub(s.since))
}

// keepsFailingLocked counts a decision and reports whether the circuit should open. Failures must
// go on for a while: one slow command delays every call under way, and these fail together.
func (c *circuit) keepsFailingLocked(err error, now, closedSince time.Time) bool {
	number := int64(now.Sub(closedSince) / c.partLasts())
	p := &c.window[number%parts]
	if p.number != number {
		*p = part{number: number}
	}
	if err == nil {
		p.succeeded++
		c.failuresInRow = 0
		return false
	}
	p.failed++
	var succeeded, failed int
	for _, p := range c.window {
		if p.number > number-parts {
			succeeded += p.succeeded
			failed += p.failed
		}
	}
	if failed == 1 {
		c.failingSince, c.failuresInRow = now, 0
	}
	if c.failuresInRow == 0 {
		c.inRowSince = now
	}
	c.failuresInRow++
	return min(c.failuresInRow, failed) >= 5 && now.Sub(c.inRowSince) >= 4*c.budget ||
		failed >= max(10, succeeded) && now.Sub(c.failingSince) >= 20*c.budget
}

// partLasts returns the length of a part: the window is ten seconds, or ten budgets if that is
// longer.
func (c *circuit) partLasts() time.Duration { return max(time.Second, c.budget) }
