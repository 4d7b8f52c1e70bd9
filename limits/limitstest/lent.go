package limitstest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// lentCases are about units of concurrency limits that are lent (DESIGN 12).
var lentCases = []testCase{
	lentCase("lent units are held until they come back or end",
		"units that are lent for a minute end after a minute, and not a microsecond earlier; what has "+
			"come back can be taken at once (DESIGN 12)",
		func(w endWorld) {
			l := limits.Concurrent(2)
			w.borrow(l, "a", 1)
			w.clock.advance(20 * sec)
			w.borrow(l, "b", 1)
			w.has(l, 0)
			w.comesBack(l, "b", 1, 1)
			w.has(l, 1)
			w.borrow(l, "c", 1)
			w.clock.advance(40*sec - time.Microsecond)
			w.has(l, 0)
			w.clock.advance(time.Microsecond)
			w.has(l, 1)
			w.clock.advance(hour)
			w.has(l, 2)
		}),
	lentCase("a holder returns what it has, and no more",
		"a return that comes twice, late or without a taking returns nothing (DESIGN 12)",
		func(w endWorld) {
			l := limits.Concurrent(5)
			w.borrow(l, "a", 2)
			w.borrow(l, "b", 1)
			w.comesBack(l, "stranger", 3, 0)
			w.comesBack(l, "a", 1, 1)
			w.comesBack(l, "a", 5, 1)
			w.comesBack(l, "a", 1, 0)
			w.has(l, 4)
			w.clock.advance(2 * mins)
			w.comesBack(l, "b", 1, 0)
			w.has(l, 5)
		}),
	lentCase("a holder that takes more has all until the last end",
		"units of one holder add up, and end together (backends.Charge)",
		func(w endWorld) {
			l := limits.Concurrent(5)
			w.borrow(l, "a", 1)
			w.clock.advance(40 * sec)
			w.borrow(l, "a", 2)
			w.clock.advance(40 * sec)
			w.has(l, 2)
			w.comesBack(l, "a", 1, 1)
			w.clock.advance(20 * sec)
			w.has(l, 5)
		}),
	lentCase("without a holder the last that were taken come back",
		"so those whose end was lost end by themselves although others come and go (backends.Ending)",
		func(w endWorld) {
			l := limits.Concurrent(5)
			w.borrow(l, "", 1) // its end is lost
			for range 6 {
				w.clock.advance(10*sec - time.Microsecond)
				w.borrow(l, "", 2)
				w.has(l, 2)
				w.comesBack(l, "", 2, 2)
			}
			w.clock.advance(6 * time.Microsecond)
			w.has(l, 5)
			w.comesBack(l, "", 1, 0)
			w.has(l, 5)
		}),
	lentCase("a denied request borrows nothing",
		"neither where the limit denies nor where another does (DESIGN 1: all or nothing)",
		func(w endWorld) {
			l, none := limits.Concurrent(1), limits.FixedWindow(limits.PerHour(1))
			other := backends.Charge{Scope: "other", Key: "k", Limit: none, Cost: 2}
			w.take(lent(l, "a", 1), other)
			w.has(l, 1)
			w.borrow(l, "b", 1)
			w.expect("another", []backends.Charge{lent(l, "c", 1)}, held(0, sec))
			w.comesBack(l, "c", 1, 0)
			w.comesBack(l, "a", 1, 0)
			w.has(l, 0)
		}),
	lentCase("never more is lent than the limit",
		"64 callers take and return under names of their own: at no time do they have more than the "+
			"limit, and in the end nothing is lent (DESIGN 1)",
		func(w endWorld) {
			l := limits.Concurrent(20)
			var now, peak atomic.Int64
			w.concurrently(func(i int) {
				for j := range 30 {
					c := lent(l, string(rune('A'+i)), int64(1+(i+j)%3))
					if d := w.try(c)[0]; !d.Allowed {
						continue
					}
					n := now.Add(c.Cost)
					for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
					}
					now.Add(-c.Cost)
					w.comesBack(l, string(rune('A'+i)), c.Cost, c.Cost)
				}
			})
			if peak.Load() > 20 {
				w.Errorf("%d of 20 are lent at once", peak.Load())
			}
			w.has(l, 20)
		}),
	lentCase("lent units are those of their definition",
		"random takings, returns and waits leave what a list of loans has (backends.Charge)",
		func(w endWorld) {
			random, l := rand.New(rand.NewPCG(w.seed, 1)), limits.Concurrent(12)
			var all []loan
			for range 300 {
				w.clock.advance(time.Duration(random.Int64N(20e6)) * time.Microsecond)
				now := w.clock.micros()
				all = slices.DeleteFunc(all, func(o loan) bool { return o.end <= now })
				used := int64(0)
				for _, o := range all {
					used += o.units
				}
				holder := []string{"", "a", "b", "c"}[random.IntN(4)]
				n := 1 + random.Int64N(4)
				if random.IntN(3) > 0 {
					d := w.take(lent(l, holder, n))[0]
					if d.Allowed != (used+n <= 12) {
						w.Fatalf("%d more of 12 with %d in use: %s", n, used, showDecision(d))
					}
					if d.Allowed {
						all = append(all, loan{holder, n, now + mins.Microseconds()})
					}
					for i := range all {
						if d.Allowed && holder != "" && all[i].holder == holder {
							all[i].end = now + mins.Microseconds()
						}
					}
				} else {
					want := int64(0)
					for i := len(all) - 1; i >= 0; i-- {
						if all[i].holder == holder {
							part := min(all[i].units, n-want)
							all[i].units, want = all[i].units-part, want+part
						}
					}
					w.comesBack(l, holder, n, want)
				}
			}
		}),
}

// loan is units that are lent, in the model.
type loan struct {
	holder string
	units  int64
	end    int64
}

// lentCase is a heldCase for backends that lend.
func lentCase(name, why string, run func(w endWorld)) testCase {
	return heldCase(name, why, func(w endWorld) {
		if !backends.CanLend(w.backend) {
			w.Logf("not tested, since the backend is no backends.Lender")
			return
		}
		run(w)
	})
}

// lent returns a charge of n units that are lent to a holder for a minute. "" stands for no holder.
func lent(l limits.Limit, holder string, n int64) backends.Charge {
	value := uint64(0)
	if holder != "" {
		value = uint64(holder[0]) << 56
	}
	return backends.Charge{Scope: "s", Key: "k", Limit: l, Cost: n, Value: value, Lends: mins}
}

// borrow lends n units, which must fit.
func (w endWorld) borrow(l limits.Limit, holder string, n int64) {
	w.Helper()
	if d := w.take(lent(l, holder, n))[0]; !d.Allowed {
		w.Error(about(l, "%d are denied: %s", n, showDecision(d)))
	}
}

// comesBack returns n units of a holder, who must have had so many of them.
func (w endWorld) comesBack(l limits.Limit, holder string, n, want int64) {
	w.Helper()
	c := lent(l, holder, n)
	out := make([]limits.Settlement, 1)
	err := backends.Settle(context.Background(), w.backend, []backends.Ending{{Scope: c.Scope, Key: c.Key,
		Limit: l, Taken: n, Value: c.Value, Lends: c.Lends}}, out)
	if err != nil || out[0] != (limits.Settlement{Returned: want}) {
		w.Error(about(l, "%q returned %d: %+v, %v, want %d", holder, n, out[0], err, want))
	}
}

// has checks how many units are left.
func (w endWorld) has(l limits.Limit, left int64) {
	w.Helper()
	w.is(begun{charge: lent(l, "", 0)}, allowed(left, 0, limits.Never))
}
