package headers

import (
	"math"
	"time"

	"github.com/weir-go/weir/core"
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
