package memory

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock returns instants in microseconds since the Unix epoch. It never goes back. It reads the
// monotonic clock, which costs half as much as the wall clock, and compares it with the wall clock
// every resyncEvery. If the wall clock has gone ahead, this clock follows. If it has gone back,
// this clock runs on, ahead of it.
type clock struct {
	base     time.Time    // elapsed is the time since base
	offset   atomic.Int64 // instant = elapsed + offset, nanoseconds
	syncedAt atomic.Int64 // elapsed at the last look at the wall clock
	behind   atomic.Int64 // how far the wall clock is behind the instants, microseconds

	sync   sync.Mutex // guards wall
	wall   int64      // wall clock at the last look, nanoseconds
	given  func() time.Time
	latest atomic.Int64 // the latest instant that given has returned
}

const (
	resyncEvery = 100 * time.Millisecond

	// A smaller difference is no step of the wall clock: on a busy machine, two clocks read one
	// after the other differ by as much.
	stepTolerance = 2 * time.Millisecond

	// If more than this seems to have passed while the wall clock went back, no time has passed: a
	// synctest bubble with its own clocks has begun.
	mostIdle = time.Hour

	// If more than this seems to have passed, no time has passed: a bubble has ended. Bubbles begin
	// in the year 2000.
	mostPassed = 10 * 365 * 24 * time.Hour

	// Instants are limited to 53 bits of microseconds: 1970 to 2255.
	maxInstant = 1<<53 - 1
)

// start starts the clock. It follows given unless that is nil.
func (c *clock) start(given func() time.Time) {
	c.given = given
	c.base = time.Now()
	c.wall = c.base.UnixNano()
	c.offset.Store(c.wall)
}

// now returns the present instant.
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

// at returns the time of the wall clock at an instant.
func (c *clock) at(now int64) int64 { return max(0, now-c.behind.Load()) }

// resync compares both clocks. It believes a step of the wall clock only if a second look shows the
// same step: a thread that is suspended between the two readings sees a step that did not happen.
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
