package limitstest

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

var expiryCases = []testCase{
	{
		name: "a long rest gives no more than the maximum",
		why: "absent state equals fresh state: after a second, a day or a year of rest the maximum is " +
			"there and not a unit more (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			for _, l := range h.limits.rates(limits.PerSecond(10)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 7}
				p := l.Rate().Period
				for _, rest := range []time.Duration{2 * p, 3 * p, p + hour, p + day, 365 * day} {
					w.take(c)
					w.clock.advance(rest)
					d := w.look(c)
					if d.Remaining != 10 || d.ResetAfter != 0 {
						t.Error(about(l, "after a rest of %s: %s", rest, showDecision(d)))
					}
					c.Cost = 11
					if w.take(c)[0].Allowed {
						t.Error(about(l, "after a rest of %s it allows 11", rest))
					}
					c.Cost = 10
					if !w.take(c)[0].Allowed {
						t.Error(about(l, "after a rest of %s it denies 10", rest))
					}
					w.clock.advance(2 * p)
					c.Cost = 7
				}
			}
		},
	},
	{
		name: "charging often does not make a key fresh early",
		why: "a state lives until it is fresh, counted from its last change and not from its first; a " +
			"shorter time to live gives units away (DESIGN 5, TTLs)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			c := backends.Charge{Scope: "s", Key: "k", Limit: draining(limits.PerSecond(1), 100),
				Cost: 100}
			w.take(c)
			c.Cost = 1
			for range 300 { // three fills of the bucket, each taken as it drains
				w.clock.advance(1 * sec)
				w.expect("one unit has drained", []backends.Charge{c}, allowed(0, 100*sec, 1*sec))
				w.expect("and no more", []backends.Charge{c}, denied(0, 1*sec, 100*sec))
			}
		},
	},
	{
		name: "a state lives to its last microsecond",
		why: "a store that counts in milliseconds or seconds rounds a time to live up: an expiry " +
			"never gives units away (DESIGN 5)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			for _, l := range append(h.limits.rates(limits.Per(3, 1*ms)),
				h.limits.rates(limits.Per(7, 1001*us))...) {
				c := backends.Charge{Scope: showLimit(l), Key: "k", Limit: l, Cost: l.Burst()}
				for range 5 {
					d := w.take(c)[0]
					w.clock.advance(d.ResetAfter - 1*us)
					if d := w.look(c); d.ResetAfter != 1*us {
						t.Error(about(l, "1µs before it is fresh: %s", showDecision(d)))
					}
					w.clock.advance(1 * us)
				}
			}
		},
	},
	{
		name: "Reset makes a key fresh and leaves the others",
		why: "after a reset a key is as never charged, under any limit, and no other key or scope is " +
			"(backends.Resetter)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			if !canReset(t, w.backend) {
				return
			}
			reset := func(scope, key string) {
				if err := backends.Reset(context.Background(), w.backend, scope, key); err != nil {
					t.Errorf("Reset: %v", err)
				}
			}
			for _, l := range h.limits.rates(limits.PerMinute(10)) {
				c := backends.Charge{Scope: l.Algorithm().String(), Key: "k", Limit: l, Cost: 10}
				fresh := w.look(c)
				neighbour, elsewhere := c, c
				neighbour.Key, elsewhere.Scope = "k2", c.Scope+"2"
				w.take(c, neighbour, elsewhere)
				full, alsoFull := w.look(neighbour), w.look(elsewhere)
				reset(c.Scope, c.Key)
				w.same(about(l, "after a reset"), c, fresh)
				w.same(about(l, "another key of the scope"), neighbour, full)
				w.same(about(l, "the key in another scope"), elsewhere, alsoFull)
				reset(c.Scope, c.Key)
				if d := w.take(c)[0]; !d.Allowed || d.Delay != 0 {
					t.Error(about(l, "after two resets: %s", showDecision(d)))
				}
				reset(c.Scope, "never charged")
				w.clock.advance(-1 * hour) // a reset also forgets where the clock stopped
				unseen := w.look(backends.Charge{Scope: c.Scope, Key: "unseen", Limit: l})
				fresh.EffectiveWindow = unseen.EffectiveWindow
				reset(c.Scope, c.Key)
				w.same(about(l, "after a reset with the clock stopped"), c, fresh)
				w.clock.advance(2 * hour)
			}
		},
	},
	{
		name: "Count counts the keys that are live",
		why: "a key counts from its first taking until it is fresh; denials, looks and peeks do not " +
			"make one (backends.Counter)",
		run: func(t testing.TB, h Harness) {
			w := h.world(t)
			if !canCount(t, w.backend) {
				return
			}
			most := 0
			counts := func(what string, live int) {
				t.Helper()
				n, err := backends.Count(context.Background(), w.backend)
				most = max(most, live)
				if err != nil || n < live || n > live && !h.CountsLate || n > most {
					t.Errorf("%s: Count is %d, %v, want %d", what, n, err, live)
				}
			}
			charge := func(l limits.Limit, key int, cost int64) backends.Charge {
				return backends.Charge{Scope: l.Algorithm().String(), Key: strconv.Itoa(key), Limit: l,
					Cost: cost}
			}
			counts("at first", 0)
			choices := slices.DeleteFunc(h.limits.rates(limits.PerMinute(10)),
				func(l limits.Limit) bool { return l.Rate().Period > mins })
			for i, l := range choices {
				w.take(charge(l, 1, 0))
				w.take(charge(l, 2, 11))
				counts(about(l, "after a look and a denial"), 3*i)
				w.take(charge(l, 3, 1), charge(l, 4, 10))
				w.take(charge(l, 4, 0), charge(l, 5, 5))
				counts(about(l, "after three takings"), 3*i+3)
			}
			live := func() (n int) { // by the definitions
				for _, l := range choices {
					for _, cost := range []int64{1, 10, 5} {
						taken := fresh(l, newYear.UnixMicro()).plus(newYear.UnixMicro(), cost)
						if taken.freshAt() > w.clock.micros() {
							n++
						}
					}
				}
				return n
			}
			w.clock.advance(6 * sec) // one of three keys is fresh under each bucket
			counts("after 6s", live())
			w.clock.advance(54 * sec) // all are fresh except those of the sliding window
			counts("after a minute", live())
			w.clock.advance(60 * sec)
			counts("after two minutes", 0)
		},
	},
}
