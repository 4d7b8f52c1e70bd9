package limitstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// smallCases are about stores that keep a bounded number of keys (DESIGN 6). Within the bound they
// are exact. Beyond it they may deny early. They never allow a charge that the definitions would
// deny after all the charges that the store has allowed.
var smallCases = []testCase{
	{
		name: "a store with room for every key is exact",
		why: "up to its number of keys nothing is displaced, for one key, a few and " +
			"thousands (DESIGN 6)",
		small: true,
		run: func(t testing.TB, h Harness) {
			choices := h.limits.rates(limits.PerHour(5))
			for n, next := 1, 2; n <= 5000 && n <= h.Decisions/4; n, next = next, n+next {
				s := h.stage(t, h.openSmall(n))
				for i := range n + min(n, 500) {
					l := choices[i%n%len(choices)]
					c := backends.Charge{Scope: l.Algorithm().String(), Key: fmt.Sprint(i % n), Limit: l,
						Cost: int64(3 + i%2)}
					call := scriptCall{at: s.clock.micros() + 1, charges: []backends.Charge{c}}
					if _, d := s.play(call); d != "" {
						t.Errorf("with %d keys and room for as many, at charge %d:\n%s", n, i+1, d)
						return
					}
				}
			}
		},
	},
	{
		name: "fresh keys make room for new ones",
		why: "a stream of new keys, of which the store has room for those that are live at one time, " +
			"is decided exactly (DESIGN 6: state equal to fresh is free space)",
		small: true,
		run: func(t testing.TB, h Harness) {
			for _, maxKeys := range []int{1, 3, 16, 100} {
				s := h.stage(t, h.openSmall(maxKeys))
				live := min(maxKeys, 5) // each key is live for live seconds, and one comes each second
				charge := func(i int, cost int) backends.Charge {
					return backends.Charge{Scope: "s", Key: fmt.Sprint("visitor ", i),
						Limit: draining(limits.PerSecond(1), 5), Cost: int64(cost)}
				}
				for i := range min(20*maxKeys, h.Decisions/20) {
					at := newYear.UnixMicro() + int64(i)*sec.Microseconds()
					for _, c := range []backends.Charge{charge(i, live), charge(i, live), charge(i-live+1, 0)} {
						if c.Key == charge(i, 0).Key || i >= live {
							if _, d := s.play(scriptCall{at: at, charges: []backends.Charge{c}}); d != "" {
								t.Errorf("with room for %d keys, at visitor %d:\n%s", maxKeys, i+1, d)
								return
							}
						}
					}
				}
			}
		},
	},
	{
		name: "a flood of new keys gives no key a fresh budget",
		why: "ten times as many new keys as the store has room for do not give a key that has " +
			"nothing left a fresh budget, as the eviction of the least recently used would, under its " +
			"limit or under a changed one (DESIGN 1: bounded)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, h.clockAt(newYear), nil}
			for _, maxKeys := range []int{1, 2, 7, 64} {
				for _, l := range h.limits.rates(limits.PerHour(5)) {
					w.backend = h.OpenSmall(t, w.clock.now, maxKeys)
					victim := backends.Charge{Scope: "s", Key: "victim", Limit: l, Cost: 5}
					w.take(victim)
					for i := range 10 * maxKeys {
						w.take(backends.Charge{Scope: "s", Key: fmt.Sprint("flood ", i), Limit: l, Cost: 5})
						victim.Cost = 1
						if i%maxKeys == 0 && w.take(victim)[0].Allowed {
							t.Error(about(l, "with room for %d keys, after %d new ones, a key that had nothing left "+
								"is allowed", maxKeys, i+1))
							break
						}
					}
					changed := victim
					for _, changed.Limit = range h.limits.rates(limits.PerHour(4)) {
						if w.look(changed).Remaining > 0 {
							t.Error(about(l, "with room for %d keys, after a flood, a key that had nothing left has "+
								"something under %s", maxKeys, showLimit(changed.Limit)))
						}
					}
				}
			}
		},
	},
	{
		name: "a flood under many limits gives no key a fresh budget",
		why: "a hundred limits of one scope are live in a store with little room: a key that has " +
			"nothing left never gets more than its limit defines, at any instant, and what the store " +
			"remembers of the displaced keys is forgotten when they are fresh (DESIGN 6: bounded)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, h.clockAt(newYear), nil}
			for _, maxKeys := range []int{1, 7} {
				for _, l := range h.limits.rates(limits.PerMinute(1000)) {
					w.clock.restart(newYear)
					w.backend = h.OpenSmall(t, w.clock.now, maxKeys)
					flood := func(i int64) {
						w.take(backends.Charge{Scope: "s", Key: fmt.Sprint("flood ", i),
							Limit: plain(limits.PerDay(200 + i)), Cost: 1})
					}
					for i := range int64(100) {
						flood(i)
					}
					victim := backends.Charge{Scope: "s", Key: "victim", Limit: l}
					victim.Cost = w.look(victim).Remaining
					w.take(victim)
					u := fresh(l, newYear.UnixMicro()).plus(newYear.UnixMicro(), victim.Cost)
					flood(100)
					for ends, eighth := u.freshAt()-newYear.UnixMicro(), int64(0); eighth <= 8; eighth++ {
						w.clock.set(newYear.UnixMicro() + max(0, ends*eighth/8-1))
						if got, most := w.look(victim).Remaining, 1000-u.inUse(w.clock.micros()); got > most {
							t.Error(about(l, "with room for %d keys, %d eighths of the way from its taking to fresh: "+
								"%d remain, want at most %d", maxKeys, eighth, got, most))
						}
					}
					w.clock.advance(2 * day)
					if left := w.look(victim).Remaining; left != 1000 {
						t.Error(about(l, "with room for %d keys, when all are fresh %d remain", maxKeys, left))
					}
				}
			}
		},
	},
	{
		name:  "a flood is forgotten when it is over",
		why:   "early denial lasts until what was displaced is fresh, and no longer (DESIGN 6)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, h.clockAt(newYear), nil}
			for _, l := range h.limits.rates(limits.PerMinute(5)) {
				w.backend = h.OpenSmall(t, w.clock.now, 8)
				longest := time.Duration(0)
				for i := range 80 {
					d := w.take(backends.Charge{Scope: "s", Key: fmt.Sprint("flood ", i), Limit: l, Cost: 5})[0]
					longest = max(longest, d.ResetAfter)
				}
				if longest > 2*l.Rate().Period {
					t.Error(about(l, "a new key is told that it is fresh in %s", longest))
				}
				w.clock.advance(longest)
				c := backends.Charge{Scope: "s", Key: "new", Limit: l, Cost: 5}
				if d := w.take(c)[0]; !d.Allowed {
					t.Error(about(l, "%s after a flood: %s", longest, showDecision(d)))
				}
			}
		},
	},
	smallCase("a full store never allows too much", overflowStyle{}),
	smallCase("a full store never allows too much while the clock steps back",
		overflowStyle{back: true}),
	smallCase("a full store never allows too much while limits change", overflowStyle{change: true}),
	smallCase("a full store never allows too much while limits change and the clock steps back",
		overflowStyle{back: true, change: true}),
}

func (h Harness) openSmall(maxKeys int) func(testing.TB, func() time.Time) backends.Backend {
	return func(t testing.TB, now func() time.Time) backends.Backend {
		t.Helper()
		return h.OpenSmall(t, now, maxKeys)
	}
}
