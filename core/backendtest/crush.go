package backendtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

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
	for a, u := range c.ledger {
		c.ledger[a] = u.rebased(now) // what was displaced, all at once: a store may do the same
	}
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
