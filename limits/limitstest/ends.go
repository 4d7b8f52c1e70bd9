package limitstest

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// endCases are about requests that cost more than estimated, and about calls of Settle (DESIGN 12).
// A backend that is no [backends.Settler] skips them.
var endCases = []testCase{

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
								!algorithmOf(l).moves {
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
			l := plain(limits.PerMinute(10))
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
		Value: c.Value, Ticket: b.decision.Ticket, Lasts: c.Lasts, Lends: c.Lends}
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
