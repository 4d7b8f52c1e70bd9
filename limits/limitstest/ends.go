package limitstest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// endCases are about requests that cost more than estimated, and about calls of Settle (DESIGN 12).
// A backend that is no [backends.Settler] skips them.
var endCases = []testCase{
	endCase("a cost above the estimate is charged whether it fits or not",
		"8 of 10 a minute are taken and cost 15: the key owes 5, and waits until they have drained, "+
			"expired or been taken off the next window; under a backend that charges only what fits, a "+
			"client may lie about the estimate (DESIGN 12)",
		func(w endWorld) {
			for _, test := range []struct {
				limit  limits.Limit
				want   limits.Decision // of a look
				retry  time.Duration   // of 1 unit
				minute int64           // what remains a minute later
			}{
				{limits.TokenBucket(limits.PerMinute(10), 10), allowed(0, 90*sec, 36*sec), 36 * sec, 5},
				{limits.LeakyBucket(limits.PerMinute(10), 10), allowed(0, 90*sec, 36*sec), 36 * sec, 5},
				{limits.LeakyQueue(limits.PerMinute(10), 10), allowed(0, 90*sec, 36*sec), 36 * sec, 5},
				{limits.FixedWindow(limits.PerMinute(10)), allowed(0, 2*mins, mins), mins, 5},
				{limits.AnchoredWindow(limits.PerMinute(10)), allowed(0, 2*mins, mins), mins, 5},
				{limits.SlidingWindow(limits.PerMinute(10)), allowed(0, 2*mins, 80*sec+1*us), 80*sec + 1*us, 0},
				{limits.SlidingLog(limits.PerMinute(10)), allowed(0, mins, mins), mins, 10},
			} {
				if !w.limits.has(test.limit) {
					continue
				}
				a := w.begin("k", test.limit, 8)
				w.settles(a, 15, limits.Settlement{Charged: 7})
				w.is(a, test.want)
				one := a.charge
				one.Cost = 1
				if d := w.take(one)[0]; d.Allowed || d.RetryAfter != test.retry {
					w.Error(about(test.limit, "owing 5: %s, want to be denied for %s", showDecision(d),
						test.retry))
				}
				w.clock.advance(mins)
				if left := w.look(one).Remaining; left != test.minute {
					w.Error(about(test.limit, "a minute later %d remain, want %d", left, test.minute))
				}
				w.clock.advance(3*hour - mins)
			}
		}),
	endCase("a key owes no more than its maximum",
		"of a million units above the estimate as many are charged as leave the key owing the maximum, "+
			"and the rest is forgiven and said to be; a bucket drains within 100 years. Without a cap a "+
			"key was locked out for 115 days (DESIGN 12)",
		func(w endWorld) {
			for _, l := range w.limits.rates(limits.PerMinute(10)) {
				a := w.begin("k", l, 8)
				w.settles(a, 1_000_008, limits.Settlement{Charged: 12, Forgiven: 999_988})
				w.settles(w.begin("k", l, 0), math.MaxInt64, limits.Settlement{Forgiven: math.MaxInt64})
				p := l.Rate().Period
				w.clock.advance(2*p - 1*us)
				if left := w.look(a.charge).Remaining; left != 0 && hasWindows(l) {
					w.Error(about(l, "owing 10, 1µs before two periods: %d remain, want 0", left))
				}
				w.clock.advance(p + 1*us)
				if left := w.look(a.charge).Remaining; left != 10 {
					w.Error(about(l, "three periods later %d remain, want 10", left))
				}
				w.clock.advance(4*day - 3*p)
			}
			century := limits.TokenBucket(limits.Per(1, 8766*hour), 100)
			w.settles(w.begin("c", century, 40), 1000, limits.Settlement{Charged: 60, Forgiven: 900})
		}),
	endCase("a period of the calendar owes to the next alone",
		"8 of 10 a month cost 15, and the next month starts with 5 of them; of 2 a month it starts "+
			"full, and the month after that with nothing (DESIGN 5, the table of algorithms)",
		func(w endWorld) {
			month := limits.Calendar(10, limits.Month)
			if !w.limits.has(month) {
				return
			}
			for _, after := range []struct {
				year        int
				units, left int64
			}{{2027, 10, 5}, {2029, 2, 0}} {
				w.clock.set(time.Date(after.year, time.January, 31, 0, 0, 0, 0, time.UTC).UnixMicro())
				a := w.begin(fmt.Sprint(after.units), month, 8)
				w.settles(a, 15, limits.Settlement{Charged: 7})
				w.is(a, allowed(0, 29*day, 1*day))
				a.charge.Limit, a.charge.Cost = limits.Calendar(after.units, limits.Month), 2
				w.expect("2 more", []backends.Charge{a.charge},
					denied(0, map[int64]time.Duration{10: day, 2: 29 * day}[after.units], 29*day))
				w.clock.advance(day)
				if left := w.look(a.charge).Remaining; left != after.left {
					w.Error(about(a.charge.Limit, "in February %d remain, want %d", left, after.left))
				}
				w.clock.advance(28*day - 1*us)
				a.charge.Cost = 0
				w.expect("at the end of February", []backends.Charge{a.charge}, allowed(after.left, 1*us, 1*us))
				w.clock.advance(1 * us)
				w.expect("in March", []backends.Charge{a.charge}, allowed(after.units, 0, 31*day))
			}
		}),
	endCase("a debt counts under the limit that the key changes to",
		"8 of 10 a minute cost 15, so that the key is fresh in two minutes; under 2 a minute it owes "+
			"for four, from the first charge on, denied or not (DESIGN 5, changing a limit)",
		func(w endWorld) {
			for _, limitOf := range []func(limits.Rate) limits.Limit{limits.FixedWindow,
				limits.AnchoredWindow} {
				if !w.limits.has(limitOf(limits.PerMinute(10))) {
					continue
				}
				a := w.begin("k", limitOf(limits.PerMinute(10)), 8)
				w.settles(a, 15, limits.Settlement{Charged: 7})
				a.charge.Limit, a.charge.Cost = limitOf(limits.PerMinute(2)), 1
				w.is(a, allowed(0, 4*mins, 3*mins))
				w.expect("1 of 2 a minute", []backends.Charge{a.charge}, denied(0, 3*mins, 4*mins))
				w.clock.advance(3*mins - 1*us)
				w.expect("1µs before RetryAfter", []backends.Charge{a.charge}, denied(0, 1*us, mins+1*us))
				w.clock.advance(1 * us)
				w.expect("after RetryAfter", []backends.Charge{a.charge}, allowed(0, mins, mins))
				w.clock.advance(3*hour - 3*mins)
			}
		}),
	endCase("many requests at once are charged exactly their final costs",
		"64 callers take and end at one instant: what is left is the maximum less what all have cost, "+
			"and no caller is allowed units that do not fit (DESIGN 1: exact under any concurrency)",
		func(w endWorld) {
			for _, l := range w.limits.rates(limits.PerHour(1000)) {
				if l.Algorithm().Delays() { // returns only the last
					continue
				}
				var cost atomic.Int64
				w.concurrently(func(i int) {
					random := rand.New(rand.NewPCG(w.seed, uint64(i)))
					for range 8 {
						c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l,
							Cost: 1 + random.Int64N(9), Lasts: mins}
						if d := w.try(c)[0]; d.Allowed {
							cost.Add(c.Cost)
							final := 1 + random.Int64N(c.Cost)
							cost.Add(final - c.Cost)
							if s := w.end(begun{c, d}, final); s.Returned != c.Cost-final &&
								l.Algorithm() != limits.AlgorithmAnchoredWindow {
								w.Error(about(l, "%d of %d returned, error %v", s.Returned, c.Cost-final, s.Err))
							}
						}
					}
				})
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l}
				if left := w.look(c).Remaining; left != max(0, 1000-cost.Load()) {
					w.Error(about(l, "%d remain of 1000 after requests that cost %d", left, cost.Load()))
				}
			}
		}),
	endCase("endings and settlements have equal length",
		"anything else is an error of the caller, and none are no error (backends.Settler)",
		func(w endWorld) {
			ctx := context.Background()
			if err := backends.Settle(ctx, w.backend, make([]backends.Ending, 1), nil); err == nil {
				w.Error("one ending and room for no settlement are no error")
			}
			if err := backends.Settle(ctx, w.backend, nil, nil); err != nil {
				w.Errorf("no endings: %v", err)
			}
			l := limits.FixedWindow(limits.PerMinute(10))
			a, b := w.begin("a", l, 5), w.begin("b", l, 5)
			out := []limits.Settlement{{Returned: -7, Charged: -7, Forgiven: -7}, {Returned: -7, Charged: -7,
				Forgiven: -7}}
			err := backends.Settle(ctx, w.backend, []backends.Ending{a.ending(1), b.ending(7)}, out)
			if err != nil || out[0].Returned != 4 || out[1].Charged != 2 || out[0].Charged != 0 ||
				out[1].Returned != 0 {
				w.Errorf("two endings in one call: %+v, %v", out, err)
			}
		}),
}

// endCase returns a case that a backend without Settle skips.
func endCase(name, why string, run func(w endWorld)) testCase {
	return testCase{name: name, why: why, run: func(t testing.TB, h Harness) {
		w := endWorld{h.world(t), h.limits, h.seed(t)}
		if !backends.CanSettle(w.backend) {
			t.Logf("not tested, since the backend cannot end what it has taken (it is no backends.Settler)")
			t.SkipNow()
		}
		run(w)
	}}
}

// endWorld is a world of requests that end.
type endWorld struct {
	world
	limits *selection
	seed   uint64
}

// begun is a charge that was taken and has an end.
type begun struct {
	charge   backends.Charge
	decision limits.Decision
}

// begin takes a charge of cost units of l, which must fit.
func (w endWorld) begin(key string, l limits.Limit, cost int64) begun {
	w.Helper()
	return w.beginAs(backends.Charge{Scope: "s", Key: key, Limit: l, Cost: cost, Lasts: 20 * sec})
}

// beginAs takes a charge, which must fit.
func (w endWorld) beginAs(c backends.Charge) begun {
	w.Helper()
	if c.Limit.Algorithm().Holds() {
		c.Lasts = 0
	}
	d := w.take(c)[0]
	if !d.Allowed {
		w.Error(about(c.Limit, "%d are denied: %s", c.Cost, showDecision(d)))
	}
	return begun{c, d}
}

func (b begun) ending(final int64) backends.Ending {
	c := b.charge
	return backends.Ending{Scope: c.Scope, Key: c.Key, Limit: c.Limit, Taken: c.Cost, Final: final,
		Value: c.Value, Ticket: b.decision.Ticket, Lasts: c.Lasts}
}

// end ends b and returns its settlement without names, Taken and Final.
func (w world) end(b begun, final int64) limits.Settlement {
	w.Helper()
	out := []limits.Settlement{{Returned: -7, Charged: -7, Forgiven: -7}}
	err := backends.Settle(context.Background(), w.backend, []backends.Ending{b.ending(final)}, out)
	if err != nil {
		w.Errorf("Settle: %v", err)
	}
	s := out[0]
	return limits.Settlement{Returned: s.Returned, Charged: s.Charged, Forgiven: s.Forgiven,
		Err: s.Err}
}

// settles ends b and checks its settlement.
func (w endWorld) settles(b begun, final int64, want limits.Settlement) {
	w.Helper()
	if got := w.end(b, final); got != want {
		w.Error(about(b.charge.Limit, "%d taken cost %d in the end: %+v, want %+v", b.charge.Cost, final,
			got, want))
	}
}

// is checks a look at the key of b.
func (w endWorld) is(b begun, want limits.Decision) {
	w.Helper()
	want.At = w.clock.micros()
	if got := w.look(b.charge); !same(b.charge, got, want) {
		w.Error(about(b.charge.Limit, "%s, want %s", showDecision(got), showDecision(want)))
	}
}
