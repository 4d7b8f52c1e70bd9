package memory

import "github.com/weir-go/weir/internal/ground/family"

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

// rememberedLocked returns the step for s, a state of limit that is displaced. Of a banned key it
// keeps one unit less than the number that bans, so that no key inherits a ban.
func (sh *shard) rememberedLocked(limit *scopedLimit, s family.Used, now int64) floorStep {
	s, t, _ := limit.family.Decide(s, 0, now, &sh.states.logs)
	if limit.Bans {
		return floorStep{min(s.B, limit.Max-1), s.At + limit.Period}
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
