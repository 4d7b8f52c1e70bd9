package remote

import (
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

const (
	leaseWays = 4
	// leaseDemand is how many charges within a lease make a key busy.
	leaseDemand = 8
	// minBlock is the smallest block that is worth a call of its own.
	minBlock = 4
)

// leaseSet is the keys that share one place of the table, four at most.
type leaseSet struct {
	leased [leaseWays]atomic.Pointer[lease] // nil until the key of the demand is leased
	mu     sync.Mutex                       // guards what follows, and all changes of leased
	demand [leaseWays]demand
	resets int // under way; no block is requested meanwhile
}

// demand is how busy a key is under a limit. Charges are counted in stretches of one lease.
type demand struct {
	hash           uint64 // of scope and key; 0: empty
	limit          limits.Limit
	since          int64 // start of the stretch
	charges, units int64 // in the stretch
	before         int64 // units in the stretch before, if that was busy; otherwise 0
	remaining      int64 // at the latest answer of the inner backend; −1: unknown
	requesting     bool  // a request for a block is under way
	resets         int   // how often all units of the key became void
}

// claimLocked returns the place of a hash. If it has none, it takes the place of the least busy
// key without a block, and returns −1 if all have blocks.
func (s *leaseSet) claimLocked(hash uint64, limit *limits.Limit, now int64) int {
	victim, least := -1, int64(0)
	for i := range s.demand {
		d := &s.demand[i]
		if d.hash == hash && d.limit == *limit {
			return i
		}
		if l := s.leased[i].Load(); d.requesting || l != nil && l.used.Load() != nil {
			continue
		}
		busy := d.charges
		if d.hash == 0 || now-d.since >= 2*maxLease.Microseconds() {
			busy = -1
		}
		if victim < 0 || busy < least {
			victim, least = i, busy
		}
	}
	if victim >= 0 {
		s.leased[victim].Store(nil)
		s.demand[victim] = demand{
			hash: hash, limit: *limit, since: now, remaining: -1,
			resets: s.demand[victim].resets,
		}
	}
	return victim
}

// find returns the lease of a key, or nil.
func (s *leaseSet) find(ch *backends.Charge) *lease {
	for i := range s.leased {
		l := s.leased[i].Load()
		if l != nil && l.key == ch.Key && l.scope == ch.Scope && l.limit == ch.Limit {
			return l
		}
	}
	return nil
}

// countLocked counts charges of n units each, and the charges that blocks decided since.
func (d *demand) countLocked(terms *leaseTerms, l *lease, charges, n, now int64) {
	if l != nil {
		d.charges += l.charges.Swap(0)
		d.units = arith.Sum(d.units, l.units.Swap(0))
	}
	if age := now - d.since; age >= terms.lease {
		d.before = 0
		if age < 2*terms.lease && d.charges >= leaseDemand {
			d.before = d.units
		}
		d.since, d.charges, d.units = now, 0, 0
	}
	d.charges += charges
	d.units = arith.Sum(d.units, n*charges)
}

// sizeLocked returns how many units to request besides those held; 0 if that is not worth a call.
// Suppose that 30 units were spent in the stretch, 10 are held and 4,000 remain. With a largest
// block of 50 it returns the least of 50 − 10, 4,000/4 and 2·30: 40. Held and requested units
// never exceed the largest block, since a denial of another process may have to wait for them.
func (d *demand) sizeLocked(terms *leaseTerms, cost, held int64) int64 {
	k := min(terms.maxBlock-held, d.remaining/4, max(16, 2*max(d.units, d.before)))
	if k < minBlock || k < 2*cost {
		return 0
	}
	return k
}
