package limitstest

import (
	"sync/atomic"
	"time"
)

// newYear is where the clock starts unless a case says otherwise. Windows of
// every period that divides a day start with it.
var newYear = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

const (
	us   = time.Microsecond
	ms   = time.Millisecond
	sec  = time.Second
	mins = time.Minute
	hour = time.Hour
	day  = 24 * time.Hour
)

// clock is set by hand and read by backends, from any goroutine.
type clock struct{ instant atomic.Int64 }

func clockAt(start time.Time) *clock {
	c := new(clock)
	c.instant.Store(start.UnixMicro())
	return c
}

// now is what backends are given.
func (c *clock) now() time.Time { return time.UnixMicro(c.micros()) }

// micros is the instant in microseconds since the Unix epoch.
func (c *clock) micros() int64 { return c.instant.Load() }

// advance moves the clock by d, which may be negative.
func (c *clock) advance(d time.Duration) { c.instant.Add(d.Microseconds()) }

// set moves the clock to an instant in microseconds since the Unix epoch.
func (c *clock) set(instant int64) { c.instant.Store(instant) }
