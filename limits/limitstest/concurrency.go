package limitstest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// goroutines is how many callers the concurrent cases have.
const goroutines = 64

// concurrencyCases have many callers at once. While the clock stands still, the number admitted is
// known exactly. While it moves, the units admitted and the units drained must balance.
var concurrencyCases = []testCase{
	{
		name: "exactly the limit is admitted to many callers at once",
		why: "the decision and the taking are one step: the limit is admitted, no unit more or less, " +
			"and no two callers see the same Remaining; a backend that checks first and takes later " +
			"admits more (DESIGN 1)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			for _, l := range h.limits.rates(limits.PerHour(100)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 1}
				var left [100]atomic.Int64
				w.concurrently(func(int) {
					for range 4 {
						if d := w.try(c)[0]; d.Allowed {
							if d.Remaining < 0 || d.Remaining > 99 {
								t.Error(about(l, "of 100 it has %d remaining", d.Remaining))
								return
							}
							left[d.Remaining].Add(1)
						}
					}
				})
				for i := range left {
					if n := left[i].Load(); n != 1 {
						t.Error(about(l, "%d callers were allowed and told that %d remain, want 1", n, i))
					}
				}
			}
		},
	},
	{
		name: "exactly the limit is admitted at any cost",
		why: "callers that take several units each never take more than the limit in all (DESIGN 1: " +
			"exact under any concurrency)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			for _, l := range h.limits.rates(limits.PerHour(1000)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l}
				var taken atomic.Int64
				w.concurrently(func(i int) {
					c := c
					c.Cost = int64(1 + i%13)
					for range 12 {
						if w.try(c)[0].Allowed {
							taken.Add(c.Cost)
						}
					}
				})
				d := w.look(c)
				if taken.Load()+d.Remaining != 1000 {
					t.Error(about(l, "of 1000, %d were taken and %d remain", taken.Load(), d.Remaining))
				}
				if d.Remaining >= 13 { // together they ask for five times the limit, so a caller was denied
					t.Error(about(l, "%d remain, and a caller was denied", d.Remaining))
				}
			}
		},
	},
	{
		name: "exactly the limit of each of many keys is admitted",
		why: "callers that work through many keys, each in its own order, change no count but that of " +
			"the key they charge (DESIGN 1)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			const keys = 24
			choices := h.limits.rates(limits.PerHour(20))
			strides := [...]int{1, 5, 7, 11, 13, 17, 19, 23} // each leads past every key once
			var taken [keys]atomic.Int64
			w.concurrently(func(i int) {
				for j := range keys {
					k := (j*strides[i%len(strides)] + i) % keys
					c := backends.Charge{Scope: "s", Key: fmt.Sprint(k), Limit: choices[k%len(choices)], Cost: 1}
					if w.try(c)[0].Allowed {
						taken[k].Add(1)
					}
				}
			})
			for k := range taken {
				w.bounded(k, choices[k%len(choices)], taken[k].Load())
			}
		},
	},
	{
		name: "groups in any order neither deadlock nor take in part",
		why: "groups (a,b) and (b,a), and rings of keys, are all answered, and every key has lost " +
			"exactly what the allowed groups took; a backend that locks keys in the order of the charges " +
			"deadlocks (DESIGN 5 and 6)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			const keys = 12
			choices := h.limits.rates(limits.PerHour(90))
			charge := func(k int) backends.Charge {
				return backends.Charge{Scope: "s", Key: fmt.Sprint(k), Limit: choices[k%len(choices)], Cost: 1}
			}
			var taken [keys]atomic.Int64
			w.concurrently(func(i int) {
				for j := range 12 {
					a, b := (i+j)%keys, (i+j+1)%keys
					group := []int{a, b}
					switch (i + j) % 4 {
					case 1:
						group = []int{b, a}
					case 2:
						group = []int{b, (b + 4) % keys, a}
					case 3:
						group = []int{a, b, a} // the same key twice
					}
					charges := make([]backends.Charge, len(group))
					for i, k := range group {
						charges[i] = charge(k)
					}
					fits := true
					for _, d := range w.try(charges...) {
						fits = fits && d.Allowed
					}
					if fits {
						for _, k := range group {
							taken[k].Add(1)
						}
					}
				}
			})
			for k := range taken {
				if used := 90 - w.look(charge(k)).Remaining; used != taken[k].Load() {
					t.Error(about(charge(k).Limit, "the allowed groups took %d of key %d, and %d are in use",
						taken[k].Load(), k, used))
				}
			}
		},
	},
	{
		name: "two limits in one request admit exactly the smaller",
		why: "64 callers of (a,b) and (b,a) are admitted as often as the smaller limit allows, and " +
			"the larger limit loses no more than that; limits that are taken one after the other lose " +
			"more (DESIGN 5, several charges)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			larger := h.limits.rates(limits.PerHour(80))
			for i, small := range h.limits.rates(limits.PerHour(50)) {
				large := larger[(i+1)%len(larger)]
				a := backends.Charge{Scope: fmt.Sprint(i), Key: "a", Limit: small, Cost: 1}
				b := backends.Charge{Scope: fmt.Sprint(i), Key: "b", Limit: large, Cost: 1}
				var admitted atomic.Int64
				w.concurrently(func(i int) {
					group := []backends.Charge{a, b}
					if i%2 == 1 {
						group = []backends.Charge{b, a}
					}
					for range 3 {
						if out := w.try(group...); out[0].Allowed && out[1].Allowed {
							admitted.Add(1)
						}
					}
				})
				if n, left := admitted.Load(), w.look(b).Remaining; n != 50 || left != 30 {
					t.Error(about(small, "with %s: %d were admitted, want 50; of the larger %d remain, want 30",
						showLimit(large), n, left))
				}
			}
		},
	},
	{
		name: "looks, peeks and shadows take nothing from callers at once",
		why: "looks, peeks and shadows that do not fit leave every unit to the callers that charge, " +
			"whatever runs at the same time (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			peeks := canPeek(t, w.backend)
			for _, l := range h.limits.rates(limits.PerHour(100)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 1}
				look, shadow := c, c
				look.Cost, shadow.Cost, shadow.Shadow = 0, 101, true
				var admitted atomic.Int64
				w.concurrently(func(i int) {
					for range 4 {
						switch i % 4 {
						case 0:
							w.try(look, shadow)
							if peeks {
								_ = backends.Peek(context.Background(), w.backend, []backends.Charge{c}, dirty(1))
							}
						default:
							if w.try(c)[0].Allowed {
								admitted.Add(1)
							}
						}
					}
				})
				w.admitted(l, admitted.Load(), 100)
			}
		},
	},
}
