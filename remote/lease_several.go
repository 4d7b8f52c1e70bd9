package remote

import (
	"context"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// leaseScratch is the memory for a call of the inner backend. Calls reuse it.
type leaseScratch struct {
	charges   []backends.Charge
	decisions []limits.Decision
	indexes   []int // of charges, in those of the caller
	aside     []setAside
}

// setAside is units of a block that a request with several rules spends if the inner backend
// allows its other rules.
type setAside struct {
	index int // of the charge
	units int64
	block *block
}

func (s *leaseScratch) clear() {
	clear(s.charges)
	clear(s.aside)
	s.charges, s.decisions = s.charges[:0], s.decisions[:0]
	s.indexes, s.aside = s.indexes[:0], s.aside[:0]
}

// mixedMargin is how long a block must last to set units aside for a request that the inner
// backend decides too: the usual time budget.
const mixedMargin = 50_000 // microseconds

// isAlone reports whether charges[i] is the only one of its key.
func isAlone(charges []backends.Charge, i int) bool {
	for j := range charges {
		if j != i && charges[j].Key == charges[i].Key && charges[j].Scope == charges[i].Scope {
			return false
		}
	}
	return true
}

// takeOthers lets the inner backend decide the charges without units set aside, and those whose
// block may end before it answers.
func (c *LeaseCache) takeOthers(
	ctx context.Context, s *leaseScratch,
	charges []backends.Charge, out []limits.Decision, watched uint64,
) error {
	now := c.now()
	kept := s.aside[:0]
	for i, next := 0, 0; i < len(charges); i++ {
		if next < len(s.aside) && s.aside[next].index == i {
			aside := s.aside[next]
			next++
			if aside.block.lasting(now) >= mixedMargin {
				kept = append(kept, aside)
				continue
			}
			c.giveBack(&aside)
		}
		ch := charges[i]
		ch.Limit = c.terms.get(&ch.Limit).tight
		s.charges, s.indexes = append(s.charges, ch), append(s.indexes, i)
		s.decisions = append(s.decisions, limits.Decision{})
	}
	s.aside = kept
	returned := false
	defer func() { // even if the inner backend panics
		if !returned {
			for i := range s.aside {
				c.giveBack(&s.aside[i])
			}
		}
	}()
	if err := c.inner.Take(ctx, s.charges, s.decisions); err != nil {
		return err
	}
	denied := false
	for j, i := range s.indexes {
		d := &s.decisions[j]
		out[i] = *d
		denied = denied || !d.Allowed && !charges[i].Shadow
		if watched>>min(i, 63)&1 != 0 && d.Source == limits.SourcePrimary {
			c.learn(&charges[i], d)
		}
	}
	if returned = !denied; denied {
		for _, aside := range s.aside { // these charges fit, and others do not
			d := &out[aside.index]
			d.Remaining += aside.units
			terms := c.terms.get(&charges[aside.index].Limit)
			d.EffectiveWindow, d.Ticket = terms.effectiveWindow(d.Remaining), 0
		}
	}
	return nil
}

// giveBack returns units that were set aside to their block. If the block is over, they are void.
func (c *LeaseCache) giveBack(aside *setAside) {
	if !aside.block.giveBack(aside.units) {
		c.counters.void(aside.units)
	}
}
