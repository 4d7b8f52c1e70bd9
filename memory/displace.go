package memory

// displaceLocked evicts one of the keys in the buckets of visits, which are full, adds
// its state to the floor of its limit, and returns a slot that is then free in the
// first two buckets. A new key under limit takes that slot.
//
// The victim belongs to the scope with most keys in the buckets. Among scopes with as
// many keys, limit's own scope yields. So a flood of keys in one scope displaces
// itself. Within the scope the victim is the key that is fresh soonest, and among
// those the key that has used least.
func (sh *shard) displaceLocked(visits []visit, limit *scopedLimit, now int64) *entry {
	victim, from, mixed := sh.soonestLocked(visits, anyShare)
	if mixed {
		victim, from, _ = sh.soonestLocked(visits, int(sh.crowdedLocked(visits, limit.share)))
	}
	under := sh.limits.get(victim.limitID)
	sh.raiseFloorLocked(under, sh.rememberedLocked(under, victim.used(), now), now)
	if c, ok := sh.changeLocked(victim, now); ok {
		sh.raiseFloorLocked(under, floorStep{c.units, c.until}, now)
	}
	sh.clearLocked(victim)
	sh.displaced++
	return sh.moveLocked(visits, from, victim)
}

const anyShare = -1

// soonestLocked returns the key with a share number that is fresh soonest, and among
// those the key that has used least, with the index of its visit. It also reports
// whether there are keys with other share numbers.
func (sh *shard) soonestLocked(visits []visit, share int) (victim *entry, from int, mixed bool) {
	var soonest, least int64
	id := sh.buckets[visits[0].bucket][0].limitID
	limit := sh.limits.get(id)
	first, wanted := limit.share, share == anyShare || share == int(limit.share)
	for i := range visits {
		slots := &sh.buckets[visits[i].bucket]
		for j := range slots {
			e := &slots[j]
			if e.limitID != id {
				id, limit = e.limitID, sh.limits.get(e.limitID)
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

// crowdedLocked returns the share number that most keys in the buckets of visits have:
// own if no other has more.
func (sh *shard) crowdedLocked(visits []visit, own uint8) uint8 {
	var keys [shares]uint16
	most := own
	for i := range visits {
		slots := &sh.buckets[visits[i].bucket]
		for j := range slots {
			share := sh.limits.get(slots[j].limitID).share
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
