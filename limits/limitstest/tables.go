package limitstest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// table is what one key is charged and told, step by step, with every number
// worked out by hand.
type table struct {
	name, why string
	start     time.Time // zero: newYear
	phases    []phase
}

// phase is the steps under one limit. Tables of several phases change the limit
// under live state.
type phase struct {
	limit limits.Limit
	steps []step
}

type step struct {
	advance time.Duration // the clock moves by this first
	cost    int64
	want    limits.Decision // At is the clock's
}

func allowed(remaining int64, reset, window time.Duration) limits.Decision {
	return limits.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset, EffectiveWindow: window}
}

func queued(delay time.Duration, remaining int64, reset, window time.Duration) limits.Decision {
	return limits.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset, EffectiveWindow: window, Delay: delay}
}

func denied(remaining int64, retry, reset time.Duration) limits.Decision {
	return limits.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset, EffectiveWindow: retry}
}

// held is a denial by a concurrency limit. Its wait is a guess, which is not compared.
func held(remaining int64, retry time.Duration) limits.Decision {
	return limits.Decision{Remaining: remaining, RetryAfter: retry, EffectiveWindow: limits.Never}
}

// testCase plays the table on several keys: alone, together with a key that
// has plenty, in shadow, and with its cost split over two charges. All have to
// give the same numbers.
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
					t.SkipNow() // and the case says which limit
				}
			}
			for _, way := range ways {
				tb.play(t, h, way)
			}
		},
	}
}

// way is how the charge of a step reaches the backend; its decision is the first.
type way struct {
	name    string
	charges func(c backends.Charge, plenty limits.Limit) []backends.Charge
}

var ways = []way{
	{"alone", func(c backends.Charge, _ limits.Limit) []backends.Charge { return []backends.Charge{c} }},
	{"together with a key that has plenty", func(c backends.Charge, plenty limits.Limit) []backends.Charge {
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

// everyAlgorithm is a limit of n per period under each algorithm, by name; of n at once,
// an hour's ban for n, or n a day of the calendar.
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
	}
}

// isRate reports whether l counts what was taken and gives it back as time passes, up to
// the maximum and no further. A concurrency limit and a ban do not.
func isRate(l limits.Limit) bool {
	return !l.Algorithm().Holds() && l.Algorithm() != limits.AlgorithmBan
}

// about labels what a case reports on one of several limits.
func about(l limits.Limit, format string, args ...any) string {
	return showLimit(l) + ": " + fmt.Sprintf(format, args...)
}
