package breaker

import (
	"time"

	"github.com/sony/gobreaker/v2"
)

// The second way to open: half of windowCalls or more, in a window.
const (
	windowCalls    = 20
	windowShortest = time.Second
	windowLongest  = 10 * time.Second
)

// trip decides when failures are reason enough to open. The circuit calls it with
// its lock held, and the due part only for failures.
type trip struct {
	failures uint32        // in a row
	atLeast  time.Duration // from the first of them to the last

	latest   error     // the latest failure
	rowSince time.Time // the first failure since a success

	windowSince time.Time        // zero: no failure yet
	before      gobreaker.Counts // the window

	changed time.Time // when the circuit last opened or closed
}

// note remembers what failed. It reports whether err is a success.
func (t *trip) note(err error) bool {
	if err != nil {
		t.latest = err
	}
	return err == nil
}

// due reports whether it is time to open, after a failure that is part of c.
func (t *trip) due(c gobreaker.Counts) bool {
	now := time.Now()
	if c.ConsecutiveFailures == 1 {
		t.rowSince = now
	}
	if c.ConsecutiveFailures >= t.failures && now.Sub(t.rowSince) >= t.atLeast {
		return true
	}
	if t.windowSince.IsZero() || now.Sub(t.windowSince) > windowLongest {
		t.windowSince, t.before = now, c
		t.before.TotalFailures--
	}
	// The circuit's counters wrap around: differences are right nonetheless.
	failures := c.TotalFailures - t.before.TotalFailures
	successes := c.TotalSuccesses - t.before.TotalSuccesses
	return now.Sub(t.windowSince) >= windowShortest && failures >= successes && failures+successes >= windowCalls
}

// opened and closed start anew and return how long the state before lasted. The
// circuit has cleared its counters.
func (t *trip) opened(now time.Time) (after time.Duration) {
	after = now.Sub(t.changed)
	t.changed = now
	return after
}

func (t *trip) closed(now time.Time) (after time.Duration) {
	after = now.Sub(t.changed)
	t.changed, t.windowSince, t.latest = now, time.Time{}, nil
	return after
}
