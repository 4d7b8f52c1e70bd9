package backendtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
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
	limit core.Limit
	steps []step
}

type step struct {
	advance time.Duration // the clock moves by this first
	cost    int64
	want    core.Decision // At is the clock's
}

func allowed(remaining int64, reset, window time.Duration) core.Decision {
	return core.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset, EffectiveWindow: window}
}

func queued(delay time.Duration, remaining int64, reset, window time.Duration) core.Decision {
	return core.Decision{Allowed: true, Remaining: remaining, ResetAfter: reset, EffectiveWindow: window, Delay: delay}
}

func denied(remaining int64, retry, reset time.Duration) core.Decision {
	return core.Decision{Remaining: remaining, RetryAfter: retry, ResetAfter: reset, EffectiveWindow: retry}
}

// held is a denial by a concurrency limit. Its wait is a guess, which is not compared.
func held(remaining int64, retry time.Duration) core.Decision {
	return core.Decision{Remaining: remaining, RetryAfter: retry, EffectiveWindow: core.Never}
}

// testCase plays the table on several keys: alone, together with a key that
// has plenty, in shadow, and with its cost split over two charges. All have to
// give the same numbers.
func (tb table) testCase() testCase {
	why := tb.why
	return testCase{
		name: tb.name,
		why:  why,
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
	charges func(core.Charge) []core.Charge
}

var ways = []way{
	{"alone", func(c core.Charge) []core.Charge { return []core.Charge{c} }},
	{"together with a key that has plenty", func(c core.Charge) []core.Charge {
		return []core.Charge{c, {Scope: "plenty", Key: c.Key, Limit: plenty, Cost: 1}}
	}},
	{"in shadow", func(c core.Charge) []core.Charge {
		c.Shadow = true
		return []core.Charge{c}
	}},
	{"as two charges", func(c core.Charge) []core.Charge {
		rest := c
		c.Cost = c.Cost / 2
		rest.Cost -= c.Cost
		return []core.Charge{c, rest}
	}},
}

func (tb table) play(t testing.TB, h Harness, way way) {
	t.Helper()
	w := h.world(t)
	if !tb.start.IsZero() {
		w.clock.set(tb.start.UnixMicro())
	}
	n := 0
	for _, p := range tb.phases {
		for _, s := range p.steps {
			n++
			w.clock.advance(s.advance)
			s.want.At = w.clock.micros()
			charges := way.charges(core.Charge{Scope: "table", Key: way.name, Limit: p.limit, Cost: s.cost})
			got := w.take(charges...)
			if d := diff(charges[:1], got[:1], []core.Decision{s.want}); d != "" {
				t.Fatalf("step %d, %s, charged %s:\n%s", n, instant(s.want.At), way.name, d)
			}
		}
	}
}

var (
	plenty       = core.TokenBucket(core.PerSecond(1_000_000), 1_000_000_000)
	tenPerMinute = core.SlidingWindow(core.PerMinute(10))
)

// everyAlgorithm is a limit of n per period under each algorithm, by name; of n at once, or
// an hour's ban for n.
func everyAlgorithm(rate core.Rate) []core.Limit {
	return []core.Limit{
		core.TokenBucket(rate, rate.Units),
		core.LeakyBucket(rate, rate.Units),
		core.LeakyQueue(rate, rate.Units),
		core.FixedWindow(rate),
		core.SlidingWindow(rate),
		core.SlidingLog(rate),
		core.AnchoredWindow(rate),
		core.Concurrent(rate.Units),
		core.Ban(rate, hour),
	}
}

// isRate reports whether l counts what was taken and gives it back as time passes, up to
// the maximum and no further. A concurrency limit and a ban do not.
func isRate(l core.Limit) bool {
	return l.Algorithm() != core.AlgorithmConcurrent && l.Algorithm() != core.AlgorithmBan
}

// about labels what a case reports on one of several limits.
func about(l core.Limit, format string, args ...any) string {
	return showLimit(l) + ": " + fmt.Sprintf(format, args...)
}
