package remote

import (
	"strings"
	"sync/atomic"

	"github.com/weir-go/weir/internal/ground/keyhash"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// leaseTable is the keys that a lease cache watches or leases, in sets of four.
type leaseTable struct {
	supply *leaseSupply
	sets   []atomic.Pointer[leaseSet] // nil until a key of the set is charged
	hasher keyhash.Hasher
}

func newLeaseTable(supply *leaseSupply, maxKeys int) leaseTable {
	return leaseTable{
		supply: supply,
		sets:   make([]atomic.Pointer[leaseSet], (maxKeys+leaseWays-1)/leaseWays),
		hasher: keyhash.New(),
	}
}

// spend spends units of a block for ch, sets d to the decision and returns the block, or nil if no
// block has enough units. It counts the charge, and requests a block if one is due. busy reports
// whether the key is leased or about to be.
func (t *leaseTable) spend(
	terms *leaseTerms, ch *backends.Charge, d *limits.Decision,
) (b *block, busy bool) {
	hash := t.hasher.Of(ch.Scope, ch.Key)
	set := t.set(hash)
	counted := int64(1)
	if l := set.find(ch); l != nil {
		if b = l.spend(ch.Cost, &t.supply.leaseClock, terms, d); b != nil {
			l.charges.Add(1)
			l.units.Add(ch.Cost)
			now := t.supply.now()
			if l.next.Load() != nil || now.mono < l.notBefore.Load() || !b.endsSoon(terms, now) {
				return b, true
			}
			counted = 0
		}
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	now := t.supply.now()
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
		go t.supply.request(set, demand, l, terms, k, ch.Lasts, demand.resets)
	case l != nil:
		l.notBefore.Store(now.mono + terms.lease/32)
	}
	return b, true
}

// learn records what remains of the key of ch.
func (t *leaseTable) learn(ch *backends.Charge, d *limits.Decision) {
	hash := t.hasher.Of(ch.Scope, ch.Key)
	set := t.set(hash)
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

// mayHold reports whether this process holds units of the key of ch, or has requested some.
func (t *leaseTable) mayHold(ch *backends.Charge) bool {
	hash := t.hasher.Of(ch.Scope, ch.Key)
	set := t.slot(hash).Load()
	if set == nil {
		return false
	}
	set.mu.Lock()
	defer set.mu.Unlock()
	l := set.find(ch)
	if l == nil {
		return false
	}
	now := t.supply.now()
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
func (t *leaseTable) returnLocally(e *backends.Ending) bool {
	ch := backends.Charge{Scope: e.Scope, Key: e.Key, Limit: e.Limit}
	l := t.set(t.hasher.Of(e.Scope, e.Key)).find(&ch)
	if l == nil || !t.supply.settles {
		return false
	}
	for _, b := range [...]*block{l.used.Load(), l.next.Load()} {
		if b != nil && b.Ticket == e.Ticket && b.lasting(t.supply.now()) > 0 &&
			b.giveBack(e.Taken-e.Final) {
			return true
		}
	}
	return false
}

// void makes all units of a key void that this process holds or has requested. It adds n to the
// resets under way.
func (t *leaseTable) void(scope, key string, n int) {
	hash := t.hasher.Of(scope, key)
	set := t.set(hash)
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
				t.supply.counters.void(b.close())
				b.timer.Stop()
			}
		}
	}
}

// held returns how many keys have blocks, and their units. It delays no decision.
func (t *leaseTable) held() (keys int, units int64) {
	now := t.supply.now()
	for i := range t.sets {
		set := t.sets[i].Load()
		if set == nil {
			continue
		}
		for j := range set.leased {
			l := set.leased[j].Load()
			if l == nil {
				continue
			}
			if held := l.used.Load().left(now) + l.next.Load().left(now); held > 0 {
				keys++
				units += held
			}
		}
	}
	return keys, units
}

// slot returns the slot of the set for a hash.
func (t *leaseTable) slot(hash uint64) *atomic.Pointer[leaseSet] {
	return &t.sets[hash%uint64(len(t.sets))]
}

// set returns the set for a hash. It makes the set if necessary.
func (t *leaseTable) set(hash uint64) *leaseSet {
	slot := t.slot(hash)
	if set := slot.Load(); set != nil {
		return set
	}
	slot.CompareAndSwap(nil, new(leaseSet))
	return slot.Load()
}
