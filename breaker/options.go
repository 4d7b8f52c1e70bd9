package breaker

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Budget is how long a decision may take. 0: 50ms.
	Budget time.Duration

	// MaxCalls is how many calls of a backend that does not honour deadlines may
	// be under way at once, those that were left behind at the end of the budget
	// included. Each has a goroutine. An eighth is set aside for probes, so that
	// calls that hang do not stand in the way of recovery. 0: 1,024.
	MaxCalls int

	// Failures is how many decisions in a row have to fail before the backend is
	// not asked any more, provided that they have failed for four budgets or
	// more. 0: 5.
	Failures int

	// OpenFor is how long the backend is then left alone before it is probed.
	// 0: 1s.
	OpenFor time.Duration

	// Probes is how many decisions at most are let through to find out whether
	// the backend is well again; all of them have to succeed. 0: 3.
	Probes int

	// OnChange is told once of every change, in order, one at a time, on a
	// goroutine of its own. A panic in it is logged. nil: nothing.
	OnChange func(Change)

	// Logger logs every change once: "weir: backend degraded" as a warning,
	// "weir: backend recovered" as information.
	// nil: what slog.Default returns at that time. For silence, give it a
	// slog.DiscardHandler.
	Logger *slog.Logger
}

// filled returns the options with the defaults in place. It panics if one is out
// of range.
func (o Options) filled() Options {
	fill := func(name string, v *int, standard int) {
		if *v < 0 || *v > math.MaxInt32 {
			panic(fmt.Sprintf("breaker: New: %s must be 0 to %d (got %d)", name, math.MaxInt32, *v))
		}
		if *v == 0 {
			*v = standard
		}
	}
	fillDuration := func(name string, v *time.Duration, standard time.Duration) {
		if *v < 0 {
			panic(fmt.Sprintf("breaker: New: %s must not be negative (got %v)", name, *v))
		}
		if *v == 0 {
			*v = standard
		}
	}
	fillDuration("Budget", &o.Budget, 50*time.Millisecond)
	fill("MaxCalls", &o.MaxCalls, 1024)
	fill("Failures", &o.Failures, 5)
	fillDuration("OpenFor", &o.OpenFor, time.Second)
	fill("Probes", &o.Probes, 3)
	return o
}
