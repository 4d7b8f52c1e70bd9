package limitstest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// newYear is the start of the clock unless a case says otherwise. Windows of every period that
// divides a day start then.
var newYear = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

const (
	us   = time.Microsecond
	ms   = time.Millisecond
	sec  = time.Second
	mins = time.Minute
	hour = time.Hour
	day  = 24 * time.Hour
)

// clock is set by cases and read by backends, from any goroutine.
type clock struct {
	instant atomic.Int64
	keeps   bool         // the backend's time does not go back, whatever the clock shows
	latest  atomic.Int64 // the latest instant that the backend has read
}

// clockAt returns a clock for a backend of h.
func (h Harness) clockAt(start time.Time) *clock {
	c := &clock{keeps: h.keepsTime}
	c.restart(start)
	return c
}

// restart sets the clock for a new backend, which has read no instant.
func (c *clock) restart(start time.Time) {
	c.instant.Store(start.UnixMicro())
	c.latest.Store(0)
}

// now is the clock of backends.
func (c *clock) now() time.Time {
	now := c.instant.Load()
	for latest := c.latest.Load(); now > latest &&
		!c.latest.CompareAndSwap(latest, now); latest = c.latest.Load() {
	}
	return time.UnixMicro(now)
}

// exact is the clock of Exact: the instant at which the backend decides.
func (c *clock) exact() time.Time { return time.UnixMicro(c.micros()) }

// micros returns the instant at which the backend decides, in microseconds since the Unix epoch.
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

// keepsTime reports whether the time of a new backend stands still when its clock goes back.
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

// timeCases are about a backend whose time stands still when its clock goes back.
var timeCases = []testCase{{
	name: "time goes on from the latest instant when the clock steps back",
	why: "for as long as the clock is behind, every decision is at the latest instant that " +
		"the backend has seen: nothing is admitted twice, and no wait is longer (DESIGN 5, a " +
		"clock that steps back)",
	keepsTime: true,
	run: func(t testing.TB, h Harness) {
		for _, l := range h.limits.rates(limits.PerMinute(10)) {
			w := h.world(t)
			c := backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: 10}
			w.take(c)
			c.Cost = 1
			before := w.take(c)[0]
			for _, back := range []time.Duration{1 * us, 30 * sec, 24 * hour} {
				w.clock.advance(-back)
				if d := w.take(c)[0]; d != before {
					t.Error(about(l, "%s back: %s, want %s as before", wait(back), showDecision(d),
						showDecision(before)))
				}
				w.clock.advance(back)
			}
			if before.Allowed || !isRate(l) {
				continue
			}
			w.clock.advance(before.RetryAfter - 1*us)
			if w.take(c)[0].Allowed {
				t.Error(about(l, "allowed 1µs too early after the clock has stepped back and ahead again"))
			}
			w.clock.advance(1 * us)
			if !w.take(c)[0].Allowed {
				t.Error(about(l, "denied after its wait once the clock has stepped back and ahead again"))
			}
		}
	},
}}
