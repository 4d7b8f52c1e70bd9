package limitstest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// table is a sequence of charges on one key, with the decisions worked out by hand.
type table struct {
	name, why string
	start     time.Time // zero: newYear
	phases    []phase
}

// phase is the steps under one limit. A table of several phases changes the limit under live state.
type phase struct {
	limit limits.Limit
	steps []step
}

type step struct {
	advance time.Duration // the clock moves by this before the charge
	cost    int64
	want    limits.Decision // without At, which is the clock's
}

func allowed(remaining int64, reset, window time.Duration) limits.Decision {
	return limits.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset,
		EffectiveWindow: window}
}

func queued(delay time.Duration, remaining int64, reset, window time.Duration) limits.Decision {
	return limits.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset,
		EffectiveWindow: window, Delay: delay}
}

func denied(remaining int64, retry, reset time.Duration) limits.Decision {
	return limits.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset,
		EffectiveWindow: retry}
}

// held returns a denial by a concurrency limit. Its wait is a guess, which is not compared.
func held(remaining int64, retry time.Duration) limits.Decision {
	return limits.Decision{Remaining: remaining, RetryAfter: retry, EffectiveWindow: limits.Never}
}

// testCase returns a case that plays the table on several keys: alone, together with a key that has
// plenty, in shadow, and with the cost split over two charges. The numbers must be the same.
func (tb table) testCase() testCase {
	stepsBack := slices.ContainsFunc(tb.phases, func(p phase) bool {
		return slices.ContainsFunc(p.steps, func(s step) bool { return s.advance < 0 })
	})
	return testCase{
		name:      tb.name,
		why:       tb.why,
		stepsBack: stepsBack,
		run: func(t testing.TB, h Harness) {
			for _, p := range tb.phases {
				if !h.limits.has(p.limit) {
					t.SkipNow() // the case logs which limit
				}
			}
			for _, way := range ways {
				tb.play(t, h, way)
			}
		},
	}
}

// way says in which charges the charge of a step reaches the backend. Its decision is the first.
type way struct {
	name    string
	charges func(c backends.Charge, plenty limits.Limit) []backends.Charge
}

var ways = []way{
	{"alone", func(c backends.Charge, _ limits.Limit) []backends.Charge {
		return []backends.Charge{c}
	}},
	{"together with a key that has plenty",
		func(c backends.Charge, plenty limits.Limit) []backends.Charge {
			return []backends.Charge{c, {Scope: "plenty", Key: c.Key, Limit: plenty, Cost: 1}}
		}},
	{"in shadow", func(c backends.Charge, _ limits.Limit) []backends.Charge {
		c.Shadow = true
		return []backends.Charge{c}
	}},
	{"as two charges", func(c backends.Charge, _ limits.Limit) []backends.Charge {
		rest := c
		c.Cost = c.Cost / 2
		rest.Cost -= c.Cost
		return []backends.Charge{c, rest}
	}},
}

func (tb table) play(t testing.TB, h Harness, way way) {
	t.Helper()
	w, plenty := h.world(t), h.limits.plenty()
	if !tb.start.IsZero() {
		w.clock.set(tb.start.UnixMicro())
	}
	n := 0
	for _, p := range tb.phases {
		for _, s := range p.steps {
			n++
			w.clock.advance(s.advance)
			s.want.At = w.clock.micros()
			charge := backends.Charge{Scope: "table", Key: way.name, Limit: p.limit, Cost: s.cost}
			charges := way.charges(charge, plenty)
			got := w.take(charges...)
			if d := diff(charges[:1], got[:1], []limits.Decision{s.want}); d != "" {
				t.Fatalf("step %d, %s, charged %s:\n%s", n, instant(s.want.At), way.name, d)
			}
		}
	}
}

var (
	plenty       = limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000_000)
	tenPerMinute = limits.SlidingWindow(limits.PerMinute(10))
)

// everyAlgorithm returns a limit of n per period under each algorithm. The concurrency limit is n
// at once, the ban lasts an hour, and the calendar limit is n a day.
func everyAlgorithm(rate limits.Rate) []limits.Limit {
	return []limits.Limit{
		limits.TokenBucket(rate, rate.Units),
		limits.LeakyBucket(rate, rate.Units),
		limits.LeakyQueue(rate, rate.Units),
		limits.FixedWindow(rate),
		limits.SlidingWindow(rate),
		limits.SlidingLog(rate),
		limits.AnchoredWindow(rate),
		limits.Concurrent(rate.Units),
		limits.Ban(rate, hour),
		limits.Calendar(rate.Units, limits.Day),
		limits.Distinct(rate),
		limits.Ban(rate, hour).Growing(day),
	}
}

// isRate reports whether units taken under l come back as time passes, and are at most the maximum.
// That is not so for a concurrency limit, a ban or a limit on values.
func isRate(l limits.Limit) bool {
	return !l.Algorithm().Holds() && !isBan(l) &&
		!l.Algorithm().CountsValues()
}

// about returns a message of a case about one of several limits.
func about(l limits.Limit, format string, args ...any) string {
	return showLimit(l) + ": " + fmt.Sprintf(format, args...)
}
