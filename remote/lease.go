package remote

import (
	"sync/atomic"

	"github.com/weir-go/weir/limits"
)

// lease is the units of a key that this process has taken. Charges find and spend them without a
// lock. Blocks change under the lock of the set.
//
// For example a token bucket of 6,000 a minute is leased for a second, in which the rate brings
// 100 units. A block has 50 at most: see demand.sizeLocked.
//
//	   0 ms   the eighth charge in a second: a block of 16 is requested
//	  40 ms   the answer: 16 units, to spend until 999 ms after the request
//	 300 ms   4 of the 16 are left, a quarter: the next block is requested
//	 340 ms   the next block has arrived; it is spent when the first is used up
//	1299 ms   the next block ends: units that were not spent are returned
type lease struct {
	scope, key     string
	limit          limits.Limit
	used, next     atomic.Pointer[block] // charges spend used first
	charges, units atomic.Int64          // spent since demand.countLocked last added them
	remaining      atomic.Int64          // see demand
	notBefore      atomic.Int64          // earliest time to request the next block
}

// spend spends n units of a block of l, sets d to the decision and returns the block, or nil if no
// block has enough units.
func (l *lease) spend(n int64, clock *leaseClock, terms *leaseTerms, d *limits.Decision) *block {
	used, next := l.used.Load(), l.next.Load()
	now := clock.now() // read last: no unit is spent before it is charged
	b := used
	if !b.spend(n, now) {
		if b = next; !b.spend(n, now) {
			return nil
		}
	}
	b.describe(d, terms, max(0, l.remaining.Load())+used.left(now)+next.left(now), now)
	return b
}

// endUsedLocked replaces the block in use by the next one if it is used up or over.
func (l *lease) endUsedLocked(now instant) {
	for range 2 {
		if b := l.used.Load(); b != nil && b.left(now) == 0 {
			l.used.Store(l.next.Swap(nil))
		}
	}
}
