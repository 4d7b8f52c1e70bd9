package backendtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// smallCases are about stores that keep a bounded number of keys (DESIGN 6).
// Within the bound they are exact. Beyond it they may deny early, and never
// allow what the definitions, given all that the store has allowed, would not.
var smallCases = []testCase{
	{
		name:  "a store with a place for every key is exact",
		why:   "up to its number of keys nothing is displaced, for one key, a few and thousands (DESIGN 6)",
		small: true,
		run: func(t testing.TB, h Harness) {
			limits := everyAlgorithm(core.PerHour(5))
			for n, next := 1, 2; n <= 5000 && n <= h.Decisions/4; n, next = next, n+next {
				s := h.stage(t, h.openSmall(n))
				for i := range n + min(n, 500) {
					l := limits[i%n%len(limits)]
					c := core.Charge{Scope: l.Algorithm().String(), Key: fmt.Sprint(i % n), Limit: l, Cost: int64(3 + i%2)}
					if _, d := s.play(scriptCall{s.clock.micros() + 1, take, []core.Charge{c}}); d != "" {
						t.Errorf("with %d keys and as many places, at charge %d:\n%s", n, i+1, d)
						return
					}
				}
			}
		},
	},
	{
		name:  "places are free again when their keys are fresh",
		why:   "what counts are the keys live at one time: a stream of new keys, of which no more are live than there are places, is decided exactly (DESIGN 6: state equal to fresh is free space)",
		small: true,
		run: func(t testing.TB, h Harness) {
			for _, places := range []int{1, 3, 16, 100} {
				s := h.stage(t, h.openSmall(places))
				live := min(places, 5) // each key is for so many seconds, and one comes each second
				charge := func(i int, cost int) core.Charge {
					return core.Charge{Scope: "s", Key: fmt.Sprint("visitor ", i), Limit: core.TokenBucket(core.PerSecond(1), 5), Cost: int64(cost)}
				}
				for i := range min(20*places, h.Decisions/20) {
					at := newYear.UnixMicro() + int64(i)*sec.Microseconds()
					for _, c := range []core.Charge{charge(i, live), charge(i, live), charge(i-live+1, 0)} {
						if c.Key == charge(i, 0).Key || i >= live {
							if _, d := s.play(scriptCall{at, take, []core.Charge{c}}); d != "" {
								t.Errorf("with %d places, at visitor %d:\n%s", places, i+1, d)
								return
							}
						}
					}
				}
			}
		},
	},
	{
		name:  "a flood of new keys buys nobody a fresh budget",
		why:   "a key that has nothing left has nothing left after ten times as many new keys as there are places, under its limit or one that was changed since (DESIGN 1: bounded; lesson: LRU that hands an attacker a fresh budget)",
		small: true,
		run: func(t testing.TB, h Harness) {
			w := world{t, clockAt(newYear), nil}
			for _, places := range []int{1, 2, 7, 64} {
				for _, l := range everyAlgorithm(core.PerHour(5)) {
					w.backend = h.OpenSmall(t, w.clock.now, places)
					victim := core.Charge{Scope: "s", Key: "victim", Limit: l, Cost: 5}
					w.take(victim)
					for i := range 10 * places {
						w.take(core.Charge{Scope: "s", Key: fmt.Sprint("flood ", i), Limit: l, Cost: 5})
						victim.Cost = 1
						if i%places == 0 && w.take(victim)[0].Allowed {
							t.Error(about(l, "with %d places, after %d new keys, a key that had nothing left is allowed", places, i+1))
							break
						}
					}
					changed := victim
					for _, changed.Limit = range everyAlgorithm(core.PerHour(4)) {
						if w.look(changed).Remaining > 0 {
							t.Error(about(l, "with %d places, after a flood, a key that had nothing left has something under %s", places, showLimit(changed.Limit)))
						}
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
			w := world{t, clockAt(newYear), nil}
			for _, l := range everyAlgorithm(core.PerMinute(5)) {
				w.backend = h.OpenSmall(t, w.clock.now, 8)
				longest := time.Duration(0)
				for i := range 80 {
					d := w.take(core.Charge{Scope: "s", Key: fmt.Sprint("flood ", i), Limit: l, Cost: 5})[0]
					longest = max(longest, d.ResetAfter)
				}
				if longest > 2*mins {
					t.Error(about(l, "a new key is told that it is fresh in %s", longest))
				}
				w.clock.advance(longest)
				c := core.Charge{Scope: "s", Key: "new", Limit: l, Cost: 5}
				if d := w.take(c)[0]; !d.Allowed {
					t.Error(about(l, "%s after a flood: %s", longest, showDecision(d)))
				}
			}
		},
	},
	smallCase("a store short of places never allows too much", crushStyle{}),
	smallCase("a store short of places never allows too much while the clock steps back", crushStyle{back: true}),
	smallCase("a store short of places never allows too much while limits change", crushStyle{change: true}),
	smallCase("a store short of places never allows too much while limits change and the clock steps back", crushStyle{back: true, change: true}),
}

func (h Harness) openSmall(places int) func(testing.TB, func() time.Time) core.Backend {
	return func(t testing.TB, now func() time.Time) core.Backend {
		t.Helper()
		return h.OpenSmall(t, now, places)
	}
}

// crushStyle is what happens besides charges.
type crushStyle struct{ back, change bool }

// smallCase plays random charges of more keys than there are places. The
// ledger follows the store: it takes what the store has taken, and must have
// room for it.
func smallCase(name string, style crushStyle) testCase {
	return testCase{
		name:  name,
		why:   "whatever is displaced, the store allows nothing that the definitions, given all that it has allowed before, deny (DESIGN 6: a little early denial, never one unit too many)",
		small: true,
		run: func(t testing.TB, h Harness) {
			seed := h.seed(t)
			const length = 400
			for i := 0; i < max(1, h.Decisions/4/length) && !t.Failed(); i++ {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				c := &crush{crushStyle: style, random: random, ledger: ledger{}, log: map[string][]crushed{}, places: 1 + random.IntN(12), keys: 2 + random.IntN(60)}
				for range 1 + random.IntN(3) {
					c.limits = append(c.limits, livelyLimit(random))
				}
				c.world = world{t, clockAt(newYear), nil}
				c.backend = h.OpenSmall(t, c.clock.now, c.places)
				for range length {
					if c.change && random.IntN(20) == 0 {
						s := random.IntN(len(c.limits))
						c.limits[s] = changedLimit(random, c.limits[s])
					}
					if !c.step() {
						break
					}
				}
			}
		},
	}
}

// crush is a store with too many keys.
type crush struct {
	crushStyle
	world
	random *rand.Rand
	places int
	keys   int
	limits []core.Limit // of each scope
	ledger ledger
	calls  int
	log    map[string][]crushed // of each scope
}

// crushed is what happened to one charge.
type crushed struct {
	charge   core.Charge
	decision core.Decision
}

// livelyLimit is a limit under which keys are live for a while.
func livelyLimit(random *rand.Rand) core.Limit {
	rate := core.Per(1+random.Int64N(8), time.Duration(1+random.Int64N(100))*sec)
	return everyAlgorithm(rate)[random.IntN(6)]
}

// step makes one call and reports whether to go on.
func (c *crush) step() bool {
	c.Helper()
	switch c.random.IntN(8) {
	case 0:
		c.clock.advance(duration(upTo(c.random, (3 * mins).Microseconds())))
	case 1:
		c.clock.advance(duration(upTo(c.random, (2 * sec).Microseconds())))
	case 2:
		if c.back && c.random.IntN(3) == 0 {
			c.clock.advance(-duration(upTo(c.random, mins.Microseconds())))
		}
	}
	var charges []core.Charge
	for len(charges) == 0 || c.random.IntN(5) == 0 {
		s := c.random.IntN(len(c.limits))
		key := c.random.IntN(c.keys)
		if c.random.IntN(3) == 0 {
			key %= 3 // some come often
		}
		charges = append(charges, core.Charge{
			Scope: fmt.Sprint("scope ", s), Key: fmt.Sprint(key), Limit: c.limits[s],
			Cost: upTo(c.random, c.limits[s].Burst()), Shadow: c.random.IntN(8) == 0,
		})
	}
	now := c.clock.micros()
	c.ledger.dropFresh(now) // the store may have dropped it, too
	got := c.take(charges...)
	c.calls++
	for i, charge := range charges {
		c.log[charge.Scope] = append(c.log[charge.Scope], crushed{charge, got[i]})
	}
	of, excess := c.follow(now, charges, got)
	if excess == "" {
		return true
	}
	c.Errorf("with %d places for %d keys in each of %d scopes, call %d: %s", c.places, c.keys, len(c.limits), c.calls, excess)
	log := c.log[of.Scope]
	for _, past := range log[max(0, len(log)-25):] {
		c.Logf("  %s %s: %s", instant(past.decision.At), show(past.charge), showDecision(past.decision))
	}
	return false
}

// follow takes from the ledger what the store has taken, and says of which
// charge that was too much, and how.
func (c *crush) follow(now int64, charges []core.Charge, got []core.Decision) (of core.Charge, excess string) {
	var taken []core.Charge
	for i, charge := range charges {
		if !charge.Shadow && !got[i].Allowed {
			taken = nil // the group is denied
			break
		}
		if got[i].Allowed {
			taken = append(taken, charge)
		}
	}
	want := make([]core.Decision, len(taken))
	changes, err := c.ledger.take(now, taken, want)
	if err != nil {
		return charges[0], err.Error()
	}
	for i, d := range want {
		if !d.Allowed {
			return taken[i], fmt.Sprintf("allowed %s, which had %s", show(taken[i]), showDecision(d))
		}
	}
	maps.Copy(c.ledger, changes)
	if len(charges) > 1 || c.change && c.back {
		return core.Charge{}, ""
	}
	of = charges[0]
	look := of
	look.Cost = 0
	u := c.ledger[account{of.Scope, of.Key}]
	if d, _ := decide(u, look, now, false); got[0].Remaining > d.Remaining {
		return of, fmt.Sprintf("says that %d remain of %s, where there are %d", got[0].Remaining, show(look), d.Remaining)
	}
	// A key that was displaced is promised no wait once its limit changes or
	// the clock steps back.
	if d, _ := decide(u, of, now, false); !c.change && !c.back && !got[0].Allowed && got[0].RetryAfter < d.RetryAfter {
		return of, fmt.Sprintf("says to retry %s in %s, where it takes %s", show(of), wait(got[0].RetryAfter), wait(d.RetryAfter))
	}
	return of, ""
}
