package breaker

import (
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/weir-go/weir/limits"
)

// Options are the options of [New]. The zero value is ready to use.
type Options struct {
	// Budget is how long a decision may take. 0: 50ms.
	Budget time.Duration

	// MaxCalls is how many calls may be under way at once, abandoned ones included. It
	// applies to backends that do not honour deadlines: each call has a goroutine. An
	// eighth is reserved for probes, so that calls that hang do not prevent recovery.
	// 0: 1,024.
	MaxCalls int

	// Failures is how many decisions in a row must fail before the breaker opens,
	// provided that they fail over four budgets or more. 0: 5.
	Failures int

	// OpenFor is how long an open breaker waits before it probes the backend, and
	// between one series of probes and the next. 0: 1s.
	OpenFor time.Duration

	// Probes is how many decisions are let through, at most, to find out whether the
	// backend works again. All of them must succeed. 0: 3.
	Probes int

	// Lease has [NewStack] put a [remote.LeaseCache] around the breaker: busy keys are then
	// decided in this process, with units taken before. It is the Term of
	// [remote.LeaseOptions], and has to be the same on all instances. [New] panics if it is
	// set, since a Breaker holds nothing. 0: every decision is the backend's.
	Lease time.Duration

	// Announcer has [NewStack] tell the denial caches of other instances of denials, and
	// this one of theirs: see [remote.DenialCacheOptions]. [New] panics if it is set, since a
	// Breaker remembers no denials. nil: denials stay in this process.
	Announcer limits.Announcer

	// OnChange is called once for every change, in order, one call at a time, on a
	// goroutine of its own. A panic in it is logged. nil: nothing is called.
	OnChange func(Change)

	// Logger logs every change once: "weir: backend degraded" as a warning, "weir:
	// backend recovered" as information. nil: the logger that slog.Default returns at
	// that time. To log nothing, use a slog.DiscardHandler.
	Logger *slog.Logger
}

// withDefaults returns o with the defaults in place of zeros. It panics if an option is
// out of range.
func (o Options) withDefaults() Options {
	fill := func(name string, v *int, defaultValue int) {
		if *v < 0 || *v > math.MaxInt32 {
			panic(fmt.Sprintf("breaker: New: %s must be 0 to %d (got %d)", name, math.MaxInt32, *v))
		}
		if *v == 0 {
			*v = defaultValue
		}
	}
	fillDuration := func(name string, v *time.Duration, defaultValue time.Duration) {
		if *v < 0 {
			panic(fmt.Sprintf("breaker: New: %s must not be negative (got %v)", name, *v))
		}
		if *v == 0 {
			*v = defaultValue
		}
	}
	fillDuration("Budget", &o.Budget, 50*time.Millisecond)
	fill("MaxCalls", &o.MaxCalls, 1024)
	fill("Failures", &o.Failures, 5)
	fillDuration("OpenFor", &o.OpenFor, time.Second)
	fill("Probes", &o.Probes, 3)
	return o
}
