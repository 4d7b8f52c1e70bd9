package memory

import (
	"sync"

	"github.com/weir-go/weir/internal/ground/family"
	"github.com/weir-go/weir/limits"
)

// shard is a part of a [Memory] with its own lock. It arranges its parts, which know neither each
// other nor the lock unless they are given: a decision loads the state of a key from the table, or
// from the floors, decides, and stores the state.
type shard struct {
	mu     sync.Mutex
	latest int64 // the latest instant of a decision of the shard

	table  table
	states states
	floors floors
	held   *heldTable // units of concurrency limits in flight; nil until the first

	displaced int64 // how many keys were displaced

	_ [8]byte // pads to 256 bytes: no two locks in one pair of cache lines
}

// nowLocked returns the instant at which to decide. The caller read now before it got the lock; the
// result is no earlier than the instant of any earlier holder of the lock.
func (sh *shard) nowLocked(now int64) int64 {
	sh.latest = max(sh.latest, now)
	return sh.latest
}

// takeLocked decides a charge of n units on hash under limit, and takes them if they fit. e is the
// entry of hash, or nil.
func (sh *shard) takeLocked(e *entry, hash uint64, limit *scopedLimit, n, now int64,
	d *limits.Decision) {
	found, displaced := sh.loadLocked(e, limit, now, true)
	s, t, fits := sh.decideLocked(limit, found, displaced, n, now)
	d.Ticket, d.Delay = 0, 0
	if fits && n > 0 {
		s.Serial = sh.states.nextSerial(limit, s)
		if !sh.states.rings.empty() && limit.Drains {
			sh.states.noteLevel(e, hash, limit, &sh.table, 0, now)
		}
		sh.storeLocked(e, hash, limit, s, now)
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
		s, _ = limit.asOf(s, now, &sh.states.logs)
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
	n, now int64) (after family.Used, t family.Told, fits bool) {
	after, t, fits = limit.family.Decide(s, n, now, &sh.states.logs)
	if !displaced || fits && n > 0 {
		return after, t, fits
	}
	t.Reset = sh.floors.wait(limit, 0, now)
	if limit.Bans {
		t.Wait = t.Reset
	} else if !fits || !limit.Ends && t.InUse >= limit.Max {
		t.Wait = sh.floors.wait(limit, limit.Max-max(n, 1), now)
	}
	return after, t, fits
}

// storeLocked stores s, to which units were just added, as the state of hash under limit. e is the
// entry of hash, or nil.
func (sh *shard) storeLocked(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64) {
	found := e != nil
	if !found {
		e = sh.claimLocked(hash, limit, now)
	}
	sh.states.store(e, hash, limit, s, &sh.table, now, found)
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

// heldLocked returns the table of the units of concurrency limits. It is a table of its own: a key
// in flight must not be displaced, and no instant is known at which it becomes fresh.
func (sh *shard) heldLocked() *heldTable {
	if sh.held == nil {
		sh.held = &heldTable{slots: make([]heldSlot, leastHeldSlots)}
	}
	return sh.held
}
