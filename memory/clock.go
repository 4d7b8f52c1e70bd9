package memory

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
	syncedAt atomic.Int64 // elapsed when the wall clock was last looked at

	given  func() time.Time // if not nil, the clock to read instead
	latest atomic.Int64     // the last instant from given

	// steps counts the steps of the clock that were seen. A caller that reads steps,
	// then the clock, then takes a lock and finds steps changed, has an instant from
	// before a step.
	steps atomic.Int64
}

const (
	resyncEvery = 100 * time.Millisecond

	// A wall clock that is off by less than this has not stepped: two clocks
	// read one after the other differ by as much when the machine is busy.
	stepTolerance = 2 * time.Millisecond

	// Instants are limited to 53 bits of microseconds: 1970 to 2255.
	maxInstant = 1<<53 - 1
)

func (c *clock) start(given func() time.Time) {
	c.given = given
	c.base = time.Now()
	c.offset.Store(c.base.UnixNano())
}

// now returns the instant.
func (c *clock) now() int64 {
	if c.given != nil {
		now := clampInstant(c.given().UnixMicro())
		if c.latest.Swap(now)-now > stepTolerance.Microseconds() {
			c.steps.Add(1)
		}
		return now
	}
	elapsed := int64(time.Since(c.base))
	if uint64(elapsed-c.syncedAt.Load()) >= uint64(resyncEvery) {
		c.resync(c.compare)
		elapsed = int64(time.Since(c.base))
	}
	return clampInstant((elapsed + c.offset.Load()) / 1000)
}

// read returns the instant, and how many steps the clock had made by then. A step that
// this reading has found is counted, so that whoever acts on it is known to come after
// it.
func (c *clock) read() (now, steps int64) {
	steps = c.steps.Load()
	now = c.now()
	for range maxLooks {
		again := c.steps.Load()
		if again == steps {
			break
		}
		steps, now = again, c.now()
	}
	return now, steps
}

// resync looks at both clocks and follows the wall clock if it has stepped. It believes
// only a second look that agrees with the first, since a thread that is stopped
// between reading one clock and the other sees a step where there is none.
func (c *clock) resync(look func() (elapsed, offset int64)) {
	elapsed, offset := look()
	if old := c.offset.Load(); !near(offset, old) {
		if _, again := look(); near(again, offset) {
			c.offset.Store(again)
			c.steps.Add(1)
		}
	}
	c.syncedAt.Store(elapsed)
}

// compare reads both clocks at once.
func (c *clock) compare() (elapsed, offset int64) {
	now := time.Now()
	elapsed = int64(now.Sub(c.base))
	return elapsed, now.UnixNano() - elapsed
}

func near(a, b int64) bool {
	return a-b <= int64(stepTolerance) && b-a <= int64(stepTolerance)
}

func clampInstant(us int64) int64 {
	if uint64(us) <= maxInstant {
		return us
	}
	return min(max(us, 0), maxInstant)
}
