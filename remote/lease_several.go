package remote

import (
	"context"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// leaseScratch is the working memory of a call of the inner backend, pooled.
type leaseScratch struct {
	charges   []backends.Charge
	decisions []limits.Decision
	indexes   []int // index of each charge in those of the caller
	aside     []setAside
}

// setAside is units of a block that a request with several rules has spent if the inner
// backend allows the other rules.
type setAside struct {
	index int // index of the charge; −1: none
	units int64
	block *block
}

func (s *leaseScratch) clear() {
	clear(s.charges)
	clear(s.aside)
	s.charges, s.decisions, s.indexes, s.aside = s.charges[:0], s.decisions[:0], s.indexes[:0], s.aside[:0]
}

// mixedMargin is how long a block has to last so that its units are set aside for a request
// that the inner backend has to decide too: the time budget of a breaker.
const mixedMargin = 50_000 // microseconds

// isAlone reports whether no other charge names the key of charges[i].
func isAlone(charges []backends.Charge, i int) bool {
	for j := range charges {
		if j != i && charges[j].Key == charges[i].Key && charges[j].Scope == charges[i].Scope {
			return false
		}
	}
	return true
}

// takeOthers has the inner backend decide the charges for which no units were set aside, or
// only units that may expire before it answers.
func (c *LeaseCache) takeOthers(ctx context.Context, s *leaseScratch, charges []backends.Charge, out []limits.Decision, watched uint64) error {
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
		ch.Limit = c.terms.get(&ch.Limit, c.term).tight
		s.charges, s.indexes = append(s.charges, ch), append(s.indexes, i)
		s.decisions = append(s.decisions, limits.Decision{})
	}
	s.aside = kept
	returned := false
	defer func() { // if the inner backend panics, too
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
		for _, aside := range s.aside { // a charge that fits where others do not
			d := &out[aside.index]
			d.Remaining += aside.units
			d.EffectiveWindow, d.Ticket = c.terms.get(&charges[aside.index].Limit, c.term).effectiveWindow(d.Remaining), 0
		}
	}
	return nil
}

// giveBack returns what was set aside to its block. Of a block that is over it is void.
func (c *LeaseCache) giveBack(aside *setAside) {
	if !aside.block.giveBack(aside.units) {
		c.counters.void(aside.units)
	}
}
