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
	// leaseDemand is how many charges within a lease make a key a busy one.
	leaseDemand = 8
	// minBlock is the least block that is worth a call of its own.
	minBlock = 4
)

// leaseSet is the few keys that may be in one place of the table.
type leaseSet struct {
	leased [leaseWays]atomic.Pointer[lease] // of demands, those that are or were leased
	mu     sync.Mutex                       // guards what follows, and all changes of leased
	demand [leaseWays]demand
	resets int // under way, of keys that may be here; no block is asked for meanwhile
}

// demand is how busy a key is under a limit.
type demand struct {
	hash           uint64 // of scope and key; 0: empty
	limit          limits.Limit
	since          int64 // start of the stretch of one lease in which charges are counted
	charges, units int64 // charges and their units in that stretch
	before         int64 // units in the stretch before it, if that was a busy one
	remaining      int64 // what remained at the last answer; −1: nobody has asked
	requesting     bool  // a block is being asked for
	resets         int   // how often the units of the key became void
}

// claimLocked returns the place of a hash. If there is none it takes that of the key that
// is least busy, but for those that have blocks; it returns −1 if all of them do.
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
		s.demand[victim] = demand{hash: hash, limit: *limit, since: now, remaining: -1, resets: s.demand[victim].resets}
	}
	return victim
}

// find returns the lease of a key, nil if it is not leased.
func (s *leaseSet) find(ch *backends.Charge) *lease {
	for i := range s.leased {
		if l := s.leased[i].Load(); l != nil && l.key == ch.Key && l.scope == ch.Scope && l.limit == ch.Limit {
			return l
		}
	}
	return nil
}

// countLocked counts charges, of n units, and those that were decided from blocks.
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

// sizeLocked returns how many units to ask for besides those held, 0 if that is not worth
// it. Both together are no more than the largest block: that is all that a denial of another
// process may wait for.
func (d *demand) sizeLocked(terms *leaseTerms, cost, held int64) int64 {
	k := min(terms.maxBlock-held, d.remaining/4, max(16, 2*max(d.units, d.before)))
	if k < minBlock || k < 2*cost {
		return 0
	}
	return k
}

// learn notes what the inner backend says of the key of ch.
func (c *LeaseCache) learn(ch *backends.Charge, d *limits.Decision) {
	hash := c.hasher.hash(ch.Scope, ch.Key)
	set := c.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	for i := range set.demand {
		if known := &set.demand[i]; known.hash == hash && known.limit == ch.Limit {
			known.remaining = d.Remaining
			if l := set.leased[i].Load(); l != nil {
				l.remaining.Store(d.Remaining)
			}
		}
	}
}
