package remote

import (
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
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

// spend spends units of a block for ch, sets d to the decision and returns the block, or nil if no
// block has enough units. It counts the charge, and requests a block if one is due. busy reports
// whether the key is leased or about to be.
func (c *LeaseCache) spend(
	terms *leaseTerms, ch *backends.Charge, d *limits.Decision,
) (b *block, busy bool) {
	hash := c.hasher.hash(ch.Scope, ch.Key)
	set := c.set(hash)
	counted := int64(1)
	if l := set.find(ch); l != nil {
		if b = l.spend(ch.Cost, c, terms, d); b != nil {
			l.charges.Add(1)
			l.units.Add(ch.Cost)
			now := c.now()
			if l.next.Load() != nil || now.mono < l.notBefore.Load() || !b.endsSoon(terms, now) {
				return b, true
			}
			counted = 0
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	now := c.now()
	i := set.claimLocked(hash, &ch.Limit, now.mono)
	if i < 0 {
		return b, false
	}
	demand, l := &set.demand[i], set.leased[i].Load()
	demand.countLocked(terms, l, counted, ch.Cost, now.mono)
	if l != nil {
		l.endUsedLocked(now)
	}
	if demand.requesting || set.resets > 0 || demand.charges < leaseDemand && demand.before == 0 ||
		l != nil && (now.mono < l.notBefore.Load() || l.next.Load() != nil ||
			!l.used.Load().endsSoon(terms, now)) {
		return b, demand.charges >= leaseDemand/2 || l != nil
	}
	held := int64(0)
	if l != nil {
		held = l.used.Load().left(now)
	}
	k := demand.sizeLocked(terms, ch.Cost, held)
	switch {
	case k > 0:
		if l == nil || l.used.Load() == nil {
			// The caller's strings may be parts of larger ones.
			l = &lease{scope: strings.Clone(ch.Scope), key: strings.Clone(ch.Key), limit: ch.Limit}
			set.leased[i].Store(l)
		}
		demand.requesting = true
		l.remaining.Store(demand.remaining)
		l.notBefore.Store(now.mono + terms.lease)
		go c.requestBlock(set, demand, l, terms, k, ch.Lasts, demand.resets)
	case l != nil:
		l.notBefore.Store(now.mono + terms.lease/32)
	}
	return b, true
}

// spend spends n units of a block of l, sets d to the decision and returns the block, or nil if no
// block has enough units.
func (l *lease) spend(n int64, c *LeaseCache, terms *leaseTerms, d *limits.Decision) *block {
	used, next := l.used.Load(), l.next.Load()
	now := c.now() // read last: no unit is spent before it is charged
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

// mayHold reports whether this process holds units of the key of ch, or has requested some.
func (c *LeaseCache) mayHold(ch *backends.Charge) bool {
	hash := c.hasher.hash(ch.Scope, ch.Key)
	set := c.sets[hash%uint64(len(c.sets))].Load()
	if set == nil {
		return false
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	l := set.find(ch)
	if l == nil {
		return false
	}
	now := c.now()
	if l.used.Load().left(now)+l.next.Load().left(now) > 0 {
		return true
	}
	for i := range set.demand {
		if set.leased[i].Load() == l && set.demand[i].requesting {
			return true
		}
	}
	return false
}

// returnLocally returns units that a request did not use to the block that they are from. It
// returns false if that block is over.
func (c *LeaseCache) returnLocally(e *backends.Ending) bool {
	ch := backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit}
	l := c.set(c.hasher.hash(e.Scope, e.Key)).find(&ch)
	if l == nil || !c.settles {
		return false
	}
	for _, b := range [...]*block{l.used.Load(), l.next.Load()} {
		if b != nil && b.Ticket == e.Ticket && b.lasting(c.now()) > 0 &&
			b.giveBack(e.Taken-e.Final) {
			return true
		}
	}
	return false
}

// void makes all units of a key void that this process holds or has requested. It adds n to the
// resets under way.
func (c *LeaseCache) void(scope, key string, n int) {
	hash := c.hasher.hash(scope, key)
	set := c.set(hash)
	set.mu.Lock()
	defer set.mu.Unlock()
	set.resets += n
	for i := range set.demand {
		d := &set.demand[i]
		if d.hash != hash {
			continue
		}
		d.resets++
		d.remaining = -1
		l := set.leased[i].Load()
		if l == nil {
			continue
		}
		for _, b := range [...]*block{l.used.Swap(nil), l.next.Swap(nil)} {
			if b != nil {
				c.counters.void(b.close())
				b.timer.Stop()
			}
		}
	}
}
