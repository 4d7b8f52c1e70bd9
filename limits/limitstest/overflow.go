package limitstest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// overflowStyle says whether the clock steps back, and whether limits change.
type overflowStyle struct{ back, change bool }

// smallCase plays random charges of more keys than the store has room for. Ledgers follow the
// store: they take the units that the store takes. At least one of them must allow each charge that
// the store allows.
func smallCase(name string, style overflowStyle) testCase {
	return testCase{
		name: name,
		why: "whatever keys are displaced, the store allows no charge that the definitions, after " +
			"all that it has allowed, deny (DESIGN 6: a little early denial, never one unit too many)",
		small: true,
		run: func(t testing.TB, h Harness) {
			seed := h.seed(t)
			const length = 400
			for i := 0; i < max(1, h.Decisions/4/length) && !t.Failed(); i++ {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				c := &overflow{overflowStyle: style, random: random, ledgers: [3]ledger{{}, {}, {}},
					names: map[string]int{}, log: map[string][]decided{}, maxKeys: 1 + random.IntN(12), keys: 2 +
						random.IntN(60)}
				for range 1 + random.IntN(3) {
					c.limits = append(c.limits, h.limits.lively(random))
				}
				c.world = world{t, h.clockAt(newYear), nil}
				c.backend = h.OpenSmall(t, c.clock.now, c.maxKeys)
				for range length {
					if c.change && random.IntN(20) == 0 {
						s := random.IntN(len(c.limits))
						c.limits[s] = h.limits.changed(random, c.limits[s])
					}
					if !c.step() {
						break
					}
				}
			}
		},
	}
}

// overflow is a store with more keys than it has room for.
type overflow struct {
	overflowStyle
	world
	random  *rand.Rand
	maxKeys int
	keys    int
	limits  []limits.Limit // by scope
	ledgers [3]ledger      // see rebasesEvery
	names   map[string]int // how often a key was renamed, by scope and key
	calls   int
	log     map[string][]decided // of each scope
}

// The ledgers differ in the keys that they rebase after the clock has stepped back. A store rebases
// a key that it has when the key is charged, if it is too far ahead of the clock. For displaced
// keys a store does not know the instant at which their clock stopped: it may rebase them sooner.
// Rebasing credits no time, so a charge is right if one of the ledgers allows it.
const (
	rebasesEvery   = iota // key that is ahead of the clock, at every step
	rebasesAhead          // every key that is too far ahead, at every step
	rebasesCharged        // keys that are too far ahead, when they are charged
)

// decided is a charge and its decision.
type decided struct {
	charge   backends.Charge
	decision limits.Decision
}

// livelyLimit returns a limit under which keys are live for a while.
func livelyLimit(random *rand.Rand) limits.Limit {
	rate := limits.Per(1+random.Int64N(8), time.Duration(1+random.Int64N(100))*sec)
	every := everyAlgorithm(rate)
	return every[random.IntN(len(every))]
}

// step makes one call. It returns false after a failure.
func (c *overflow) step() bool {
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
	var charges []backends.Charge
	for len(charges) == 0 || c.random.IntN(5) == 0 {
		s := c.random.IntN(len(c.limits))
		key := c.random.IntN(c.keys)
		if c.random.IntN(3) == 0 {
			key %= 3 // some keys come often
		}
		charges = append(charges, backends.Charge{
			Scope: fmt.Sprint("scope ", s), Key: c.name(s, key), Limit: c.limits[s],
			Cost: upTo(c.random, min(64, c.limits[s].Burst())), Shadow: c.random.IntN(8) == 0,
			Value: uint64(c.calls % 7),
		})
	}
	for _, l := range c.ledgers {
		maps.DeleteFunc(l, func(_ account, u usage) bool { // the store may have dropped it too
			// which rename looks at
			return u.isFresh(now) && !algorithmOf(u.limit).moves
		})
	}
	changed := c.ledgers[rebasesCharged].changed(now, charges)
	converted := map[account]bool{}
	for a, u := range changed {
		converted[a] = u.limit != c.ledgers[rebasesCharged][a].limit
	}
	maps.Copy(c.ledgers[rebasesCharged], changed)
	for a, u := range c.ledgers[rebasesAhead] {
		c.ledgers[rebasesAhead][a] = u.rebased(now)
	}
	for a, u := range c.ledgers[rebasesEvery] {
		c.ledgers[rebasesEvery][a] = u.rebasedBeyond(0, now)
	}
	got := c.take(charges...)
	c.calls++
	for i, charge := range charges {
		c.log[charge.Scope] = append(c.log[charge.Scope], decided{charge, got[i]})
	}
	culprit, excess := c.follow(now, charges, got)
	c.renameConverted(converted, charges, got)
	if excess == "" {
		return true
	}
	c.Errorf("with room for %d keys, and %d in each of %d scopes, call %d: %s", c.maxKeys, c.keys,
		len(c.limits), c.calls, excess)
	log := c.log[culprit.Scope]
	for _, past := range log[max(0, len(log)-25):] {
		c.Logf("  %s %s: %s", instant(past.decision.At), show(past.charge), showDecision(past.decision))
	}
	return false
}

// rename gives new names to keys of anchored windows that a store may have forgotten or rebased
// when the clock steps back: only the store knows at which instant. Under other algorithms,
// whatever the instant, some ledger allows as much. But an anchored window that opened earlier also
// closes earlier, and units taken after that count for longer.
func (c *overflow) rename(before, now int64) {
	for _, l := range c.ledgers {
		forgettable := l.forgettable(before, now)
		for a, u := range l {
			if algorithmOf(u.limit).moves &&
				(forgettable[a] || u.rebased(now).at != u.at) {
				c.names[a.name()]++
			}
		}
	}
}

// renameConverted gives new names to keys that were converted and took nothing. If the store has
// displaced them, their units end as under the former limit.
func (c *overflow) renameConverted(converted map[account]bool, charges []backends.Charge,
	got []limits.Decision) {
	left := maps.Clone(converted)
	for i, charge := range charges {
		if got[i].Allowed {
			left[accountOf(charge)] = false
		} else if !charge.Shadow {
			left = converted // the group takes nothing
			break
		}
	}
	for a, is := range left {
		if is {
			c.names[a.name()]++
		}
	}
}

// name returns the scope of a and its key as it was before it was renamed.
func (a account) name() string {
	key, _, _ := strings.Cut(a.key, "/")
	return a.scope + "/" + key
}

func (c *overflow) name(scope, key int) string {
	name := fmt.Sprint(key)
	if n := c.names[account{scope: fmt.Sprint("scope ", scope), key: name}.name()]; n > 0 {
		name += fmt.Sprint("/", n)
	}
	return name
}

// follow takes the units that the store took from the ledgers. If the store allowed too much, it
// returns a charge and the reason.
func (c *overflow) follow(now int64, charges []backends.Charge,
	got []limits.Decision) (culprit backends.Charge, excess string) {
	taken := map[account][]backends.Charge{}
	for i, charge := range charges {
		if !charge.Shadow && !got[i].Allowed {
			clear(taken) // the group is denied
			break
		}
		if got[i].Allowed {
			a := accountOf(charge)
			taken[a] = append(taken[a], charge)
		}
	}
	for a, together := range taken {
		// a store forgets a displaced ban and the state before it
		if a.counted == unitsOfBans {
			for _, l := range c.ledgers {
				delete(l, a)
			}
			continue
		}
		if excess := c.takeFromLedgers(now, together); excess != "" {
			return together[0], excess
		}
	}
	if len(charges) > 1 || c.change && c.back || !isRate(charges[0].Limit) {
		return backends.Charge{}, ""
	}
	culprit = charges[0]
	look := culprit
	look.Cost = 0
	most, soonest := int64(0), limits.Never
	for _, l := range c.ledgers {
		u := l[accountOf(culprit)]
		d, _ := decide(u, look, now, false)
		most = max(most, d.Remaining)
		d, _ = decide(u, culprit, now, false)
		soonest = min(soonest, d.RetryAfter)
	}
	if got[0].Remaining > most {
		return culprit, fmt.Sprintf("says that %d remain of %s, where there are %d", got[0].Remaining,
			show(look), most)
	}
	// The wait of a displaced key may be too short once its limit has changed or the
	// clock has stepped back.
	if !c.change && !c.back && !got[0].Allowed && got[0].RetryAfter < soonest {
		return culprit, fmt.Sprintf("says to retry %s in %s, where it takes %s", show(culprit),
			wait(got[0].RetryAfter), wait(soonest))
	}
	return culprit, ""
}

// takeFromLedgers takes charges on one account that the store has allowed. If every ledger denies
// them, it returns the reason. A ledger that denies them while another allows them copies the state
// of the other.
func (c *overflow) takeFromLedgers(now int64, charges []backends.Charge) (excess string) {
	var changes [len(c.ledgers)]ledger
	var allowed ledger
	for i, l := range c.ledgers {
		want := make([]limits.Decision, len(charges))
		after, err := l.take(now, charges, want)
		if err != nil {
			return err.Error()
		}
		denied := slices.IndexFunc(want, func(d limits.Decision) bool { return !d.Allowed })
		if denied >= 0 {
			excess = fmt.Sprintf("allowed %s, which had %s", show(charges[denied]),
				showDecision(want[denied]))
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
