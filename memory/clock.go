package memory

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock tells the instant in microseconds since the Unix epoch. It never goes back. It reads the
// monotonic clock, at half the price of the wall clock, and looks at the wall clock every
// resyncEvery: where that has gone ahead, the clock follows; where it has gone back, the clock
// goes on as before, ahead of it.
type clock struct {
	base     time.Time    // where elapsed counts from
	offset   atomic.Int64 // instant = elapsed + offset, nanoseconds
	syncedAt atomic.Int64 // elapsed at the last look at the wall clock
	behind   atomic.Int64 // by how much the wall clock is behind the instants, microseconds

	sync   sync.Mutex // guards wall
	wall   int64      // at the last look, nanoseconds
	given  func() time.Time
	latest atomic.Int64 // from given
}

const (
	resyncEvery = 100 * time.Millisecond

	// A wall clock that is off by less than this has not stepped: two clocks
	// read one after the other differ by as much when the machine is busy.
	stepTolerance = 2 * time.Millisecond

	// Time has not passed on the monotonic clock if it seems to be more than this while the wall
	// clock has gone back: a synctest bubble has begun, which has clocks of its own.
	mostIdle = time.Hour

	// Nor has more than this passed at all: a bubble has ended. Bubbles begin in the year 2000.
	mostPassed = 10 * 365 * 24 * time.Hour

	// Instants are limited to 53 bits of microseconds: 1970 to 2255.
	maxInstant = 1<<53 - 1
)

// start starts the clock, which is given if that is not nil.
func (c *clock) start(given func() time.Time) {
	c.given = given
	c.base = time.Now()
	c.wall = c.base.UnixNano()
	c.offset.Store(c.wall)
}

// now returns the instant.
func (c *clock) now() int64 {
	if c.given != nil {
		return c.latestGiven()
	}
	elapsed := int64(time.Since(c.base))
	if uint64(elapsed-c.syncedAt.Load()) >= uint64(resyncEvery) {
		c.resync(c.look)
		elapsed = int64(time.Since(c.base))
	}
	return clampInstant((elapsed + c.offset.Load()) / 1000)
}

// latestGiven returns the latest instant that the given clock has shown.
func (c *clock) latestGiven() int64 {
	now := clampInstant(c.given().UnixMicro())
	for {
		latest := c.latest.Load()
		if now <= latest || c.latest.CompareAndSwap(latest, now) {
			return max(now, latest)
		}
	}
}

// at returns what the wall clock shows at an instant.
func (c *clock) at(now int64) int64 { return max(0, now-c.behind.Load()) }

// resync looks at both clocks. It believes only a second look at a wall clock that agrees with the
// first, since a thread that is stopped between reading one clock and the other sees a step where
// there is none.
func (c *clock) resync(look func() (elapsed, wall int64)) {
	c.sync.Lock()
	defer c.sync.Unlock()
	elapsed, wall := look()
	passed := elapsed - c.syncedAt.Load()
	instant := c.syncedAt.Load() + c.offset.Load()
	if passed > 0 && (passed < int64(mostIdle) || passed < int64(mostPassed) && wall >= c.wall) {
		instant += passed
	}
	behind := instant - wall
	if old := c.behind.Load() * 1000; !near(behind, old) {
		again, wallAgain := look()
		if !near(wallAgain-again, wall-elapsed) {
			c.syncedAt.Store(elapsed)
			c.offset.Store(instant - elapsed)
			return
		}
		c.behind.Store(max(0, behind) / 1000)
		instant = max(instant, wall)
	}
	c.wall = wall
	c.syncedAt.Store(elapsed)
	c.offset.Store(instant - elapsed)
}

// look reads both clocks at once.
func (c *clock) look() (elapsed, wall int64) {
	now := time.Now()
	return int64(now.Sub(c.base)), now.UnixNano()
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
