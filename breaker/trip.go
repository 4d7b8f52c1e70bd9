package breaker

import (
	"time"

	"github.com/sony/gobreaker/v2"
)

// The breaker also opens when at least half of windowCalls or more decisions fail in a
// window.
const (
	windowCalls    = 20
	windowShortest = time.Second
	windowLongest  = 10 * time.Second
)

// trip decides when failures open the breaker. The circuit calls it under its lock, and
// calls due only after a failure.
type trip struct {
	failures uint32        // how many in a row open the breaker
	atLeast  time.Duration // the least time from the first of them to the last

	latest   error     // the latest failure
	rowSince time.Time // the first failure since a success

	windowSince time.Time        // zero: no failure yet
	before      gobreaker.Counts // the circuit's counters when the window began

	changed time.Time // when the circuit last opened or closed
}

// record remembers err if it is a failure. It reports whether err is a success.
func (t *trip) record(err error) bool {
	if err != nil {
		t.latest = err
	}
	return err == nil
}

// due reports whether to open after a failure, which c includes.
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
	// The circuit's counters may wrap around. Their differences stay correct.
	failures := c.TotalFailures - t.before.TotalFailures
	successes := c.TotalSuccesses - t.before.TotalSuccesses
	return now.Sub(t.windowSince) >= windowShortest && failures >= successes && failures+successes >= windowCalls
}

// opened and closed start a new state and return how long the previous one lasted. The
// circuit has cleared its counters by then.
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
