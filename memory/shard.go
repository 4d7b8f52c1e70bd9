package memory

import (
	"sync"

	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// shard is a part of a [Memory] with its own lock. It arranges its parts, which know neither each
// other nor the lock unless they are given: a decision loads the state of a key from the table, or
// from the floors, decides, and stores the state.
//
// It has 256 bytes, so that no two locks are in one pair of cache lines.
type shard struct {
	mu     sync.Mutex
	latest int64 // the latest instant of a decision of the shard

	table  table
	states states
	floors floors
	held   *heldTable // units of concurrency limits in flight; nil until the first

	displaced int64 // how many keys were displaced
}

// nowLocked returns the instant at which to decide. The caller read now before it got the lock; the
// result is no earlier than the instant of any earlier holder of the lock.
func (sh *shard) nowLocked(now int64) int64 {
	sh.latest = max(sh.latest, now)
	return sh.latest
}

// takeLocked decides a charge of n units on hash under limit, and takes them if they fit. e is the
// entry of hash, or nil.
func (sh *shard) takeLocked(e *entry, hash uint64, limit *scopedLimit, n, now int64, value uint64,
	d *limits.Decision) {
	found, displaced := sh.loadLocked(e, limit, now, true)
	s, t, fits := sh.decideLocked(limit, found, displaced, n, now, value)
	d.Ticket, d.Delay = 0, 0
	if fits && n > 0 {
		s.Serial = sh.states.nextSerial(limit, s)
		if !sh.states.rings.empty() && limit.Drains {
			sh.states.noteLevel(e, hash, limit, &sh.table, 0, now)
		}
		sh.storeLocked(e, hash, limit, s, now, value)
		d.Ticket, d.Delay = ticketOf(now, s.Serial), limit.Queued(s, n)
	}
	limit.Describe(d, n, t, fits)
}

// loadLocked returns the state of a key under limit. A key without entry (e is nil) starts from the
// floors; displaced reports whether they gave it units. A state of another limit is converted, and
// stored if writes is set.
func (sh *shard) loadLocked(e *entry, limit *scopedLimit, now int64,
	writes bool) (s family.Used, displaced bool) {
	switch {
	case e == nil:
		units := min(sh.floors.used(limit, now), limit.Max)
		if units <= 0 {
			return s, false
		}
		s, _ = limit.asOf(s, now, &sh.states.logs.nodes)
		inherited, ok := limit.family.Inherit(s, units)
		if !ok {
			inherited, _ = limit.family.Charge(s, units, 0, now)
		}
		return inherited, true
	case e.limitID == limit.id:
		return e.used(), false
	}
	return sh.states.convert(e, limit, &sh.table, now, writes), false
}

// decideLocked decides a charge of n units on s. If displaced is set, the waits come from the
// floors, since s does not know them.
func (sh *shard) decideLocked(limit *scopedLimit, s family.Used, displaced bool,
	n, now int64, value uint64) (after family.Used, t family.Told, fits bool) {
	after, t, fits = limit.family.Decide(s, n, now, value, &sh.states.logs.nodes)
	if !displaced || fits && n > 0 {
		return after, t, fits
	}
	t.Reset = sh.floors.wait(limit, 0, now)
	if limit.Bans { // inherited units leave all at once
		t.Wait = t.Reset
	} else if !fits || !limit.Ends && t.InUse >= limit.Max {
		t.Wait = sh.floors.wait(limit, limit.Max-max(n, 1), now)
	}
	return after, t, fits
}

// storeLocked stores s, to which units were just added, as the state of hash under limit. e is the
// entry of hash, or nil.
func (sh *shard) storeLocked(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64,
	value uint64) {
	found := e != nil
	if !found {
		e = sh.claimLocked(hash, limit, now)
	}
	sh.states.store(e, hash, limit, s, now, value, &sh.table, found)
}

// claimLocked returns an empty slot for a new key under limit, one of its eight. If none is free,
// the table moves other keys to their other homes, or grows; else one of the keys that it looked at
// is displaced.
func (sh *shard) claimLocked(hash uint64, limit *scopedLimit, now int64) *entry {
	if e := sh.table.free(hash, &sh.states, now); e != nil {
		return e
	}
	return sh.makeRoomLocked(hash, limit, now)
}

// makeRoomLocked is claimLocked for a key whose eight slots are in use.
func (sh *shard) makeRoomLocked(hash uint64, limit *scopedLimit, now int64) *entry {
	var visits [searchWidth]visit
	n, e := sh.table.makeRoom(&visits, hash, &sh.states, now)
	if e == nil {
		e = sh.displaceLocked(visits[:n], limit, now)
	}
	return e
}

// displaceLocked evicts one key from the buckets of visits, which are all full, adds its state to
// the floor of its limit, and returns the slot that this frees in one of the first two buckets. A
// new key under limit takes that slot.
//
// The victim belongs to the scope with the most keys in the buckets; in a tie, to limit's own
// scope. So a flood of keys in one scope displaces itself. Within the scope, the victim is the key
// that is fresh soonest; in a tie, the key that has used least.
func (sh *shard) displaceLocked(visits []visit, limit *scopedLimit, now int64) *entry {
	victim, from, mixed := sh.soonestLocked(visits, anyShare)
	if mixed {
		victim, from, _ = sh.soonestLocked(visits, int(sh.crowdedLocked(visits, limit.share)))
	}
	under := sh.states.limits.get(victim.limitID)
	sh.floors.raise(under, sh.rememberedLocked(under, victim.used(), now), now)
	if c, ok := sh.states.changes.of(victim, now); ok {
		sh.floors.raise(under, floorStep{c.units, c.until}, now)
	}
	sh.states.clear(victim)
	sh.displaced++
	return sh.table.move(visits, from, victim)
}

// rememberedLocked returns the step for s, a state of limit that is displaced.
func (sh *shard) rememberedLocked(limit *scopedLimit, s family.Used, now int64) floorStep {
	s, t, _ := limit.family.Decide(s, 0, now, 0, &sh.states.logs.nodes)
	if units, until, ok := limit.family.Bequeath(s); ok {
		return floorStep{units, until}
	}
	return floorStep{t.InUse, now + t.Reset}
}

const anyShare = -1

// soonestLocked returns, of the keys with a share number, the one that is fresh soonest (in a tie,
// the one that has used least) and the index of its visit. mixed reports whether the buckets have
// keys of several share numbers.
func (sh *shard) soonestLocked(visits []visit, share int) (victim *entry, from int, mixed bool) {
	var soonest, least int64
	id := sh.table.buckets[visits[0].bucket][0].limitID
	limit := sh.states.limits.get(id)
	first, wanted := limit.share, share == anyShare || share == int(limit.share)
	for i := range visits {
		slots := &sh.table.buckets[visits[i].bucket]
		for j := range slots {
			e := &slots[j]
			if e.limitID != id {
				id, limit = e.limitID, sh.states.limits.get(e.limitID)
				mixed = mixed || limit.share != first
				wanted = share == anyShare || share == int(limit.share)
			}
			if !wanted {
				continue
			}
			at := limit.family.FreshAt(e.used())
			if victim != nil && at > soonest {
				continue
			}
			if units := limit.Size(e.used()); victim == nil || at < soonest || units < least {
				victim, from, soonest, least = e, i, at, units
			}
		}
	}
	return victim, from, mixed
}

// crowdedLocked returns the share number of most keys in the buckets of visits. It returns own
// unless another number has more keys.
func (sh *shard) crowdedLocked(visits []visit, own uint8) uint8 {
	var keys [shares]uint16
	most := own
	for i := range visits {
		slots := &sh.table.buckets[visits[i].bucket]
		for j := range slots {
			share := sh.states.limits.get(slots[j].limitID).share
			if keys[share]++; keys[share] > keys[most] {
				most = share
			}
		}
	}
	if keys[own] == keys[most] {
		return own
	}
	return most
}

// refundLocked refunds the units that a taking did not cost, as far as [family.Compiled].Refund
// allows. It returns by how much the units in use fell: units that drained, faded or expired before
// are not among them. It refunds nothing if the state is gone, fresh, or was converted since the
// taking: converted units count from the conversion.
func (sh *shard) refundLocked(limit *scopedLimit, hash uint64, e *backends.Ending,
	now int64) int64 {
	entry := sh.table.find(hash)
	if entry == nil || !entry.knows(e.Ticket) {
		return 0
	}
	under := sh.states.limits.get(entry.limitID) // the limit that wrote the state
	before := entry.used()
	if !under.Carries(&limit.Numbers) || under.family.FreshAt(before) <= now {
		return 0
	}
	_, inUse := under.asOf(before, now, &sh.states.logs.nodes)
	after := under.family.Refund(before, family.Refund{
		Taken: e.Taken, Final: e.Final, At: e.Ticket & ticketMask, Now: now,
		Value: e.Value, Ring: sh.states.rings.of(hash),
	}, &sh.states.logs.nodes)
	if after == before {
		return 0
	}
	entry.set(after)
	_, left := under.asOf(after, now, &sh.states.logs.nodes)
	sh.storeRefundedLocked(entry, under, after, now)
	return min(e.Taken-e.Final, inUse-left)
}

// storeRefundedLocked stores the state of entry after a refund, or empties its slot if nothing is
// in use.
func (sh *shard) storeRefundedLocked(entry *entry, limit *scopedLimit, state family.Used,
	now int64) {
	// An equal state would mean that nothing was taken since the conversion. After a refund it may be
	// equal although something was.
	sh.states.changes.noteTaken(entry.hash)
	if limit.Size(state) == 0 {
		if sh.floors.empty() && sh.states.changes.empty() {
			sh.states.clear(entry)
			return
		}
		// Keep a fresh state. Without one the key would start from the floors, and lose its change.
		sh.states.logs.forget(&entry.state)
		state, _ = limit.asOf(family.Used{}, now, &sh.states.logs.nodes)
		state.Serial = sh.states.nextSerial(limit, state)
	}
	entry.set(state)
}

// chargeLocked charges up to n units that a taking cost above its estimate, whether they fit or
// not, and returns how many. It stops where the key owes the maximum. It leaves a state under another
// limit as it is if units of it would become units of limit: a conversion could undo later takings.
//
// A key without an entry may have been displaced under another limit, whose units are then only in
// a floor. A new entry under limit would hide them. So chargeLocked stores no entry then, and
// raises the floor of limit instead.
func (sh *shard) chargeLocked(limit *scopedLimit, hash uint64, n, lasts, now int64) int64 {
	entry := sh.table.find(hash)
	s, displaced := sh.loadLocked(entry, limit, now, false) // stores no conversion
	s, inUse := limit.asOf(s, now, &sh.states.logs.nodes)
	if inUse > 0 && entry != nil && !sh.states.carries(entry, limit, now) {
		return 0
	}
	if s, n = limit.family.Charge(s, n, inUse, now); n == 0 {
		return 0
	}
	if displaced && !limit.Bans {
		// The floor may be above the maximum, and loadLocked starts a key with the maximum at most.
		// The rest comes after n: if both exceed what a key may owe, the rest is cut, and not n. A ban
		// has no rest: the key would be banned for units that are not its own.
		rest := max(0, sh.floors.used(limit, now)-limit.Max)
		s, _ = limit.family.Charge(s, rest, inUse+n, now)
	}
	if entry == nil && sh.floors.hides(limit, now) {
		sh.floors.raise(limit, sh.rememberedLocked(limit, s, now), now)
		return n
	}
	if limit.Drains {
		sh.states.noteLevel(entry, hash, limit, &sh.table, lasts, now)
	}
	s.Serial = sh.states.nextSerial(limit, s)
	sh.storeLocked(entry, hash, limit, s, now, 0)
	return n
}

// heldLocked returns the table of the units of concurrency limits. It is a table of its own: a key
// in flight must not be displaced, and no instant is known at which it becomes fresh.
func (sh *shard) heldLocked() *heldTable {
	if sh.held == nil {
		sh.held = &heldTable{slots: make([]heldSlot, leastHeldSlots)}
	}
	return sh.held
}

// unitsHeldLocked returns how many units the key of p holds. If p borrows units, and there is no
// room for another loan, it returns the limit: then nothing fits.
func (sh *shard) unitsHeldLocked(p *part, now int64) int64 {
	if sh.held == nil {
		return 0
	}
	sh.held.loans.endUntil(sh.held, now)
	units := sh.held.of(p.hash)
	if p.lends > 0 && len(sh.held.loans.byEnd) >= sh.table.largest*bucketSlots {
		return max(units, p.limit.Max)
	}
	return units
}
