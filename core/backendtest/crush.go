package backendtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
)

// crushStyle is what happens besides charges.
type crushStyle struct{ back, change bool }

// smallCase plays random charges of more keys than there are places. Ledgers
// follow the store: they take what the store has taken, and one of them must have
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
				c := &crush{crushStyle: style, random: random, ledgers: [3]ledger{{}, {}, {}}, names: map[account]int{}, log: map[string][]crushed{}, places: 1 + random.IntN(12), keys: 2 + random.IntN(60)}
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
	random  *rand.Rand
	places  int
	keys    int
	limits  []core.Limit    // of each scope
	ledgers [3]ledger       // eager, prompt and lazy
	names   map[account]int // how many names a key has had
	calls   int
	log     map[string][]crushed // of each scope
}

// After a step of the clock back the lazy ledger does with each key what a store does
// that has it: it rebases a key that is too far ahead when the key is charged. But of
// those that were displaced a store does not know which it has held, and until when.
// So the prompt ledger rebases all keys that are too far ahead at once, and the eager
// one every key at every step. No time is credited by any of that: what one of the
// ledgers allows is right.
const (
	eager = iota
	prompt
	lazy
)

// crushed is what happened to one charge.
type crushed struct {
	charge   core.Charge
	decision core.Decision
}

// livelyLimit is a limit under which keys are live for a while.
func livelyLimit(random *rand.Rand) core.Limit {
	rate := core.Per(1+random.Int64N(8), time.Duration(1+random.Int64N(100))*sec)
	every := everyAlgorithm(rate)
	return every[random.IntN(len(every))]
}

// step makes one call and reports whether to go on.
func (c *crush) step() bool {
	c.Helper()
	before := c.clock.micros()
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
	now := c.clock.micros()
	c.rename(before, now)
	var charges []core.Charge
	for len(charges) == 0 || c.random.IntN(5) == 0 {
		s := c.random.IntN(len(c.limits))
		key := c.random.IntN(c.keys)
		if c.random.IntN(3) == 0 {
			key %= 3 // some come often
		}
		charges = append(charges, core.Charge{
			Scope: fmt.Sprint("scope ", s), Key: c.name(s, key), Limit: c.limits[s],
			Cost: upTo(c.random, c.limits[s].Burst()), Shadow: c.random.IntN(8) == 0,
		})
	}
	for _, l := range c.ledgers {
		maps.DeleteFunc(l, func(_ account, u usage) bool { // the store may have dropped it, too
			return u.isFresh(now) && u.limit.Algorithm() != core.AlgorithmAnchoredWindow // which rename looks at
		})
	}
	maps.Copy(c.ledgers[lazy], c.ledgers[lazy].rebased(now, charges))
	for a, u := range c.ledgers[prompt] {
		c.ledgers[prompt][a] = u.rebased(now)
	}
	for a, u := range c.ledgers[eager] {
		c.ledgers[eager][a] = u.rebasedBeyond(0, now)
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

// rename turns away from keys of anchored windows that a store may have forgotten, or
// brought back, when the clock steps back: at which instant, it alone knows. For other
// algorithms no choice of that allows more than both ledgers. But a window that opened
// earlier closes earlier, too, and what is taken then counts for longer.
func (c *crush) rename(before, now int64) {
	for _, l := range c.ledgers {
		unclear := l.unclear(before, now)
		for a, u := range l {
			if u.limit.Algorithm() == core.AlgorithmAnchoredWindow && (unclear[a] || u.rebased(now).at != u.at) {
				a.key, _, _ = strings.Cut(a.key, "/")
				c.names[a]++
			}
		}
	}
}

func (c *crush) name(scope, key int) string {
	name := fmt.Sprint(key)
	if n := c.names[account{fmt.Sprint("scope ", scope), name}]; n > 0 {
		name += fmt.Sprint("/", n)
	}
	return name
}

// follow takes from the ledgers what the store has taken, and says of which charge
// that was too much, and how.
func (c *crush) follow(now int64, charges []core.Charge, got []core.Decision) (of core.Charge, excess string) {
	taken := map[account][]core.Charge{}
	for i, charge := range charges {
		if !charge.Shadow && !got[i].Allowed {
			clear(taken) // the group is denied
			break
		}
		if got[i].Allowed {
			a := account{charge.Scope, charge.Key}
			taken[a] = append(taken[a], charge)
		}
	}
	for _, of := range taken {
		if excess := c.takeFromLedgers(now, of); excess != "" {
			return of[0], excess
		}
	}
	if len(charges) > 1 || c.change && c.back {
		return core.Charge{}, ""
	}
	of = charges[0]
	look := of
	look.Cost = 0
	most, soonest := int64(0), core.Never
	for _, l := range c.ledgers {
		u := l[account{of.Scope, of.Key}]
		d, _ := decide(u, look, now, false)
		most = max(most, d.Remaining)
		d, _ = decide(u, of, now, false)
		soonest = min(soonest, d.RetryAfter)
	}
	if got[0].Remaining > most {
		return of, fmt.Sprintf("says that %d remain of %s, where there are %d", got[0].Remaining, show(look), most)
	}
	// A key that was displaced is promised no wait once its limit changes or
	// the clock steps back.
	if !c.change && !c.back && !got[0].Allowed && got[0].RetryAfter < soonest {
		return of, fmt.Sprintf("says to retry %s in %s, where it takes %s", show(of), wait(got[0].RetryAfter), wait(soonest))
	}
	return of, ""
}

// takeFromLedgers takes charges on one account, which the store has allowed, and
// says how that was too much by every ledger. One that would have denied them goes
// on from what another has.
func (c *crush) takeFromLedgers(now int64, charges []core.Charge) (excess string) {
	var changes [len(c.ledgers)]ledger
	var allowed ledger
	for i, l := range c.ledgers {
		want := make([]core.Decision, len(charges))
		after, err := l.take(now, charges, want)
		if err != nil {
			return err.Error()
		}
		denied := slices.IndexFunc(want, func(d core.Decision) bool { return !d.Allowed })
		if denied >= 0 {
			excess = fmt.Sprintf("allowed %s, which had %s", show(charges[denied]), showDecision(want[denied]))
			continue
		}
		changes[i], allowed = after, after
	}
	if allowed == nil {
		return excess
	}
	for i, l := range c.ledgers {
		if changes[i] == nil {
			changes[i] = allowed
		}
		maps.Copy(l, changes[i])
	}
	return ""
}
