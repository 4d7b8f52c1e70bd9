package headers

import (
	"math"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// concurrentReset is the reset of a concurrency limit. The end of the running requests is unknown,
// and 0 would ask clients to come back at once.
const concurrentReset = time.Second

// resetAfter returns the wait for d in formats with a reset.
func resetAfter(d *core.RuleDecision) time.Duration {
	if d.Limit().Algorithm().Holds() {
		return concurrentReset
	}
	return d.ResetAfter
}

// untilLeft returns the wait for d in formats whose clients send nothing until the reset, once
// nothing is left. Then it is the wait until a unit is left, or until the denied cost fits, and
// least seconds at least. For a queue it is the wait until the queue is empty: clients that come
// together then would fill the one place.
func untilLeft(d *core.RuleDecision, least int64) time.Duration {
	if d.Remaining > 0 || d.EffectiveWindow == limits.Never || d.Limit().Algorithm().Delays() {
		return resetAfter(d)
	}
	return max(d.EffectiveWindow, time.Duration(min(least, maxSeconds))*time.Second)
}

// instant returns the instant after a wait for d, in microseconds since the Unix epoch. It adds two
// whole numbers of the backend, so it stays the same in every answer until units are taken. For a
// concurrency limit it moves with the clock.
func instant(d *core.RuleDecision, wait time.Duration) int64 {
	after, at := micros(wait), max(d.At, 0)
	return min(at, math.MaxInt64-microsPerSecond-after) + after
}

// micros returns ⌈d⌉ in microseconds, or 0 if d is negative.
func micros(d time.Duration) int64 {
	return ceilDiv(max(int64(d), 0), int64(time.Microsecond))
}
