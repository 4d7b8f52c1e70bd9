package limitstest

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// account identifies a state: by scope, key and what is counted, since limits that do not count
// alike count apart.
type account struct {
	scope, key string
	counted    counted
}

// counted is what a limit counts (DESIGN 5, "Kinds of counting").
type counted uint8

const (
	unitsOfRates counted = iota
	unitsOfBans
	distinctValues
	unitsHeld
)

var everyCounted = [...]counted{unitsOfRates, unitsOfBans, distinctValues, unitsHeld}

func accountOf(c backends.Charge) account { return account{c.Scope, c.Key, countedBy(c.Limit)} }

// ledger is the usage of every key. A key without an entry is fresh.
type ledger map[account]usage

// take sets out to the decisions on charges when the clock shows now. It returns the accounts that
// change, including those that it rebases or converts. It does not change l.
//
// The enforced charges on one account are one charge of their summed cost, decided before any
// shadow. The shadows on one account are one charge too, on top of the units that the enforced
// charges take.
func (l ledger) take(now int64, charges []backends.Charge, out []limits.Decision) (ledger, error) {
	return l.takeAs(0, now, charges, out)
}

// takeAs is take for a numbered call, which a later ending may name.
func (l ledger) takeAs(call int64, now int64, charges []backends.Charge,
	out []limits.Decision) (ledger, error) {
	if err := validate(charges, out); err != nil {
		return nil, err
	}
	enforced, shadows := sums(charges)
	changes := l.changed(now, charges)
	find := func(a account) usage {
		if u, changed := changes[a]; changed {
			return u
		}
		return l[a]
	}
	fits := true
	for a, c := range enforced {
		d, _ := decide(find(a), c, now, false)
		fits = fits && d.Allowed
	}
	decisions := [2]map[account]limits.Decision{{}, {}}
	for i, round := range []map[account]backends.Charge{enforced, shadows} {
		for a, c := range round {
			d, after := decide(find(a), c, now, fits)
			decisions[i][a] = d
			if fits && d.Allowed && c.Cost > 0 {
				u, x := find(a).foundBy(c.Limit, now)
				e := event{ticket{call, c.Shadow}, x, new(big.Rat).SetInt64(c.Cost), c.Limit, false, false}
				if a.counted == distinctValues && !u.has(c.Value, x) {
					after.takings[len(after.takings)-1].first = e.ticket
				}
				changes[a] = after.remembering(u, c, e).keeping(u)
			}
		}
	}
	for i, c := range charges {
		round := 0
		if c.Shadow {
			round = 1
		}
		out[i] = decisions[round][accountOf(c)]
	}
	return changes, nil
}

// changed returns the accounts of charges after rebasing those that are too far ahead of the clock
// and converting those of other limits. A denied charge, or one of cost 0, does this too.
func (l ledger) changed(now int64, charges []backends.Charge) ledger {
	changes := ledger{}
	for _, c := range charges {
		a := accountOf(c)
		if u, ok := l[a]; ok && a.counted != unitsHeld {
			changes[a] = u.changedTo(c.Limit, now)
		}
	}
	return changes
}

// ahead returns the latest instant of the accounts of charges that would be rebased, or 0.
func (l ledger) ahead(now int64, charges []backends.Charge) int64 {
	latest := int64(0)
	for _, c := range charges {
		if u, ok := l[accountOf(c)]; ok && u.rebasedBy(c.Limit, now).at != u.at {
			latest = max(latest, u.at)
		}
	}
	return latest
}

// peek is take without taking: the same answers, with the numbers of the accounts as they are.
func (l ledger) peek(now int64, charges []backends.Charge, out []limits.Decision) error {
	if _, err := l.take(now, charges, out); err != nil {
		return err
	}
	for i, c := range charges {
		c.Cost = 0
		d, _ := decide(l[accountOf(c)], c, now, false)
		out[i].Remaining, out[i].ResetAfter = d.Remaining, d.ResetAfter
		if out[i].Allowed {
			out[i].EffectiveWindow = d.EffectiveWindow
		}
	}
	return nil
}

// live counts the accounts that are not fresh.
func (l ledger) live(now int64) int {
	n := 0
	for _, u := range l {
		if !u.isFresh(now) {
			n++
		}
	}
	return n
}

// dropFresh drops the fresh accounts, as a backend may.
func (l ledger) dropFresh(now int64) {
	for a, u := range l {
		if u.isFresh(now) {
			delete(l, a)
		}
	}
}

// decide returns the decision on one charge that finds u when the clock shows now, and the usage
// after it. It takes units only if taking.
func decide(u usage, c backends.Charge, now int64, taking bool) (limits.Decision, usage) {
	found, x := u.foundBy(c.Limit, now)
	return algorithmOf(c.Limit).model.decide(found, c, x, now, taking)
}

// sums adds up the charges on each account, the enforced ones and the shadows.
func sums(charges []backends.Charge) (enforced, shadows map[account]backends.Charge) {
	enforced, shadows = map[account]backends.Charge{}, map[account]backends.Charge{}
	for _, c := range charges {
		round := enforced
		if c.Shadow {
			round = shadows
		}
		a := accountOf(c)
		cost := new(big.Int).Add(big.NewInt(round[a].Cost), big.NewInt(c.Cost))
		c.Cost = math.MaxInt64 // above every maximum
		if cost.IsInt64() {
			c.Cost = cost.Int64()
		}
		if c.Limit.Algorithm().CountsValues() {
			c.Cost = min(c.Cost, 1)
		}
		c.Lasts = max(c.Lasts, round[a].Lasts)
		round[a] = c
	}
	return enforced, shadows
}

// validate returns an error if a call is not valid.
func validate(charges []backends.Charge, out []limits.Decision) error {
	if len(charges) != len(out) {
		return fmt.Errorf("limitstest: %d charges, room for %d decisions", len(charges), len(out))
	}
	choices := map[account]limits.Limit{} // of scope and key, whatever is counted
	values := map[account]uint64{}
	for i, c := range charges {
		if err := c.Limit.Validate(); err != nil {
			return fmt.Errorf("limitstest: charge %d: %w", i, err)
		}
		if c.Cost < 0 {
			return fmt.Errorf("limitstest: charge %d: cost must not be negative (got %d)", i, c.Cost)
		}
		a := account{scope: c.Scope, key: c.Key}
		if other, named := choices[a]; named && other != c.Limit {
			return errors.New("limitstest: one key is charged under two limits at once")
		}
		if other, named := values[a]; named && other != c.Value {
			return errors.New("limitstest: one key is charged with two values at once")
		}
		choices[a], values[a] = c.Limit, c.Value
	}
	return nil
}

// duration returns n microseconds.
func duration(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
