package limitstest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits/backends"
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
type clock struct {
	instant atomic.Int64
	keeps   bool         // the backend's time does not go back, whatever the clock shows
	latest  atomic.Int64 // that the backend has seen
}

// clockAt returns a clock for a backend of h.
func (h Harness) clockAt(start time.Time) *clock {
	c := &clock{keeps: h.keepsTime}
	c.restart(start)
	return c
}

// restart sets the clock for another backend, which has seen no instant.
func (c *clock) restart(start time.Time) {
	c.instant.Store(start.UnixMicro())
	c.latest.Store(0)
}

// now is what backends are given.
func (c *clock) now() time.Time {
	now := c.instant.Load()
	for latest := c.latest.Load(); now > latest && !c.latest.CompareAndSwap(latest, now); latest = c.latest.Load() {
	}
	return time.UnixMicro(now)
}

// exact is what Exact is given: the instant at which the backend decides.
func (c *clock) exact() time.Time { return time.UnixMicro(c.micros()) }

// micros is the instant at which the backend decides, in microseconds since the Unix epoch.
func (c *clock) micros() int64 {
	if c.keeps {
		return max(c.instant.Load(), c.latest.Load())
	}
	return c.instant.Load()
}

// advance moves the clock by d, which may be negative.
func (c *clock) advance(d time.Duration) { c.instant.Add(d.Microseconds()) }

// set moves the clock to an instant in microseconds since the Unix epoch.
func (c *clock) set(instant int64) { c.instant.Store(instant) }

// keepsTime reports whether the time of b, which nobody has asked yet, does not go back when its
// clock does.
func keepsTime(t testing.TB, open func(testing.TB, func() time.Time) backends.Backend) bool {
	t.Helper()
	c := new(clock)
	c.restart(newYear)
	w := world{t, c, open(t, c.now)}
	look := backends.Charge{Scope: "time", Key: "k", Limit: tryable(w.backend)}
	before := w.take(look)[0].At
	c.advance(-1 * hour)
	return w.take(look)[0].At == before
}
