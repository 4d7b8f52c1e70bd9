package core

import (
	"sync/atomic"
	"time"
)

// clock tells the instant in microseconds since the Unix epoch. It follows the
// wall clock, steps included, but reads the monotonic clock, at half the price,
// and looks at the wall clock only every resyncEvery.
type clock struct {
	base     time.Time    // where elapsed counts from
	offset   atomic.Int64 // wall = elapsed + offset, nanoseconds
	resyncAt atomic.Int64 // elapsed at which to look at the wall clock again
}

const (
	resyncEvery = 100 * time.Millisecond

	// A wall clock that is off by less than this has not stepped: two clocks
	// read one after the other differ by as much when the machine is busy.
	stepTolerance = 2 * time.Millisecond

	// Instants are held to what 53 bits of microseconds reach: 1970 to 2255.
	maxInstant = 1<<53 - 1
)

func newClock() *clock {
	c := &clock{base: time.Now()}
	c.offset.Store(c.base.UnixNano())
	c.resyncAt.Store(int64(resyncEvery))
	return c
}

// now returns the instant.
func (c *clock) now() int64 {
	elapsed := int64(time.Since(c.base))
	next := c.resyncAt.Load()
	if elapsed >= next || elapsed < next-int64(resyncEvery) {
		c.resync(elapsed)
	}
	return clampInstant((elapsed + c.offset.Load()) / 1000)
}

func (c *clock) resync(elapsed int64) {
	offset := time.Now().UnixNano() - elapsed
	if d := offset - c.offset.Load(); d > int64(stepTolerance) || d < -int64(stepTolerance) {
		c.offset.Store(offset)
	}
	c.resyncAt.Store(elapsed + int64(resyncEvery))
}

func clampInstant(us int64) int64 { return min(max(us, 0), maxInstant) }
