package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// LeaseOptions are the options of [NewLeaseCache]. The zero value is ready to use.
type LeaseOptions struct {
	// Term is the longest time for which units are held, 10ms to 1s. Limits with a short period
	// have a shorter one, and small limits are not leased: see [Leased]. All processes that share
	// a backend need the same Term. Otherwise they may admit too many: as many units as the rate
	// brings in the longest Term. 0: 1s.
	Term time.Duration

	// MaxKeys is how many keys may be watched or leased at once, in groups of four. The inner
	// backend decides all others. 0: 16,384, of 32 KiB at first and 5 MiB at most.
	MaxKeys int
}

// LeaseCache is a [backends.Backend] in front of another one, far away. It decides busy keys in
// this process: it takes a block of a key's units from the inner backend in advance, and spends
// them for at most the lease of the limit. Whatever the number of processes, nothing is admitted
// beyond the limit: the inner backend decides under a limit that is tighter by what a lease can
// shift, see [Leased]. The price is that tighter limit, for every charge of a limit that can be
// leased, and units that lie idle in the blocks of other processes, for a lease at most.
//
// A key is leased once it has been charged 8 times within a lease. A block is what the key spends
// in two leases. It is at most a quarter of what remained at the last answer, and, with what is
// held already, at most half of what the rate brings in a lease. The cache requests it by a call
// of its own before the block in use is spent. Charges that find no units go to the inner backend.
// So where little remains, the inner backend decides each charge, first come, first served. Units
// that are not spent are returned at the end of the lease.
//
// Decisions on leased units are [limits.SourceLease]. Their Remaining is an estimate: the units of
// this process's blocks and those that remained at the last answer. RetryAfter is that of the
// inner backend. It is never too early, but counts idle units as used. Peek asks the inner backend
// alone. A Reset in another process takes effect after a lease.
//
// Several charges are one step: units of those that are leased are set aside, and the inner
// backend decides the others. If it denies them, what was set aside returns to its block. Charges
// of cost 0 and several charges of one key always go to the inner backend.
//
// It is safe for concurrent use and needs no closing: units that are held are returned within a
// second. Put it around a breaker, and a [DenialCache] around it, as [NewStack] does.
type LeaseCache struct {
	wrapper
	terms   leaseTermsCache
	supply  leaseSupply
	table   leaseTable
	scratch sync.Pool // of *leaseScratch
}

const (
	defaultLeasedKeys = 1 << 14
	mostLeasedKeys    = 1 << 30
)

// NewLeaseCache returns a cache in front of inner, or an error that reports every mistake in the
// arguments.
func NewLeaseCache(inner backends.Backend, options LeaseOptions) (*LeaseCache, error) {
	if err := errors.Join(validateInner(inner), options.validate()); err != nil {
		return nil, err
	}
	if options.Term == 0 {
		options.Term = maxLease
	}
	if options.MaxKeys == 0 {
		options.MaxKeys = defaultLeasedKeys
	}
	c := &LeaseCache{wrapper: wrapper{inner}}
	c.terms.term = options.Term.Truncate(time.Microsecond)
	c.supply.init(inner)
	c.table = newLeaseTable(&c.supply, options.MaxKeys)
	c.scratch.New = func() any { return new(leaseScratch) }
	return c, nil
}

// MustNewLeaseCache is [NewLeaseCache] for arguments that the program sets. It panics if they
// have a mistake.
func MustNewLeaseCache(inner backends.Backend, options LeaseOptions) *LeaseCache {
	return must(NewLeaseCache(inner, options))
}

func (o *LeaseOptions) validate() error {
	var errs []error
	if o.Term != 0 && (o.Term < minLease || o.Term > maxLease) {
		errs = append(errs, fmt.Errorf(
			"remote: term: must be %v to %v, or 0 for %v (got %v)",
			minLease, maxLease, maxLease, o.Term))
	}
	if o.MaxKeys < 0 || o.MaxKeys > mostLeasedKeys {
		errs = append(errs, fmt.Errorf(
			"remote: max keys: must be 1 to %d, or 0 for %d (got %d)",
			mostLeasedKeys, defaultLeasedKeys, o.MaxKeys))
	}
	return errors.Join(errs...)
}

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

// Take implements [backends.Backend].
func (c *LeaseCache) Take(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	if len(charges) != len(out) {
		return errLeaseLengths
	}
	local, leasable := 0, false
	watched := uint64(0) // bits of charges whose keys may soon be leased
	var s *leaseScratch
	for i := range charges {
		ch := &charges[i]
		terms := c.terms.get(&ch.Limit)
		if terms.lease == 0 {
			continue
		}
		leasable = true
		if ch.Cost <= 0 || !isAlone(charges, i) {
			continue
		}
		b, busy := c.table.spend(terms, ch, &out[i])
		if b == nil {
			if busy {
				watched |= 1 << min(i, 63)
			}
			continue
		}
		local++
		if len(charges) > 1 {
			if s == nil {
				s = c.scratch.Get().(*leaseScratch)
			}
			s.aside = append(s.aside, setAside{i, ch.Cost, b})
		}
	}
	var err error
	switch {
	case local == len(charges):
	case !leasable:
		return c.inner.Take(ctx, charges, out)
	default:
		if s == nil {
			s = c.scratch.Get().(*leaseScratch)
		}
		err = c.takeOthers(ctx, s, charges, out, watched)
	}
	if s != nil {
		s.clear()
		c.scratch.Put(s)
	}
	return err
}

// takeOthers lets the inner backend decide the charges without units set aside, and those whose
// block may end before it answers.
func (c *LeaseCache) takeOthers(
	ctx context.Context, s *leaseScratch,
	charges []backends.Charge, out []limits.Decision, watched uint64,
) error {
	now := c.supply.now()
	kept := s.aside[:0]
	for i, next := 0, 0; i < len(charges); i++ {
		if next < len(s.aside) && s.aside[next].index == i {
			aside := s.aside[next]
			next++
			if aside.block.lasting(now) >= mixedMargin {
				kept = append(kept, aside)
				continue
			}
			c.supply.putBack(aside.block, aside.units)
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
			for _, aside := range s.aside {
				c.supply.putBack(aside.block, aside.units)
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
			c.table.learn(&charges[i], d)
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

// isAlone reports whether charges[i] is the only one of its key.
func isAlone(charges []backends.Charge, i int) bool {
	for j := range charges {
		if j != i && charges[j].Key == charges[i].Key && charges[j].Scope == charges[i].Scope {
			return false
		}
	}
	return true
}

// Settle implements [backends.Settler] if the inner backend does. Units of a block that still
// lasts return to the block.
func (c *LeaseCache) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	if len(endings) != len(out) {
		return errors.New("remote: lease cache: endings and settlements differ in length")
	}
	var forInner []backends.Ending
	var indexes []int
	for i, e := range endings {
		terms := c.terms.get(&e.Limit)
		if terms.lease > 0 && e.Final < e.Taken && e.Final >= 0 && c.table.returnLocally(&e) {
			out[i] = limits.Settlement{Returned: e.Taken - e.Final}
			continue
		}
		e.Limit = terms.tight
		forInner, indexes = append(forInner, e), append(indexes, i)
	}
	if len(forInner) == 0 {
		return nil
	}
	results := make([]limits.Settlement, len(forInner))
	if err := backends.Settle(ctx, c.inner, forInner, results); err != nil {
		if len(forInner) == len(endings) {
			return err
		}
		for j := range results {
			results[j] = limits.Settlement{Err: err}
		}
	}
	for j, i := range indexes {
		out[i] = results[j]
	}
	return nil
}

// Peek implements [backends.Peeker] if the inner backend does.
func (c *LeaseCache) Peek(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	tight := make([]backends.Charge, len(charges))
	for i, ch := range charges {
		ch.Limit = c.terms.get(&ch.Limit).tight
		tight[i] = ch
	}
	return backends.Peek(ctx, c.inner, tight, out)
}

// Reset implements [backends.Resetter] if the inner backend does. Units of the key that this
// process holds become void.
func (c *LeaseCache) Reset(ctx context.Context, scope, key string) error {
	c.table.void(scope, key, 1)
	defer c.table.void(scope, key, -1)
	return backends.Reset(ctx, c.inner, scope, key)
}

// Counts returns what c holds, and counts since it was made. It looks at all keys, without
// delaying any decision.
func (c *LeaseCache) Counts() backends.LeaseCounts {
	n := c.supply.counters.sum()
	n.Keys, n.Held = c.table.held()
	return n
}

// leasesIn returns the lease cache within b, or nil.
func leasesIn(b backends.Backend) *LeaseCache {
	c, _ := backends.As[*LeaseCache](b)
	return c
}

var errLeaseLengths = errors.New("remote: lease cache: charges and decisions differ in length")
