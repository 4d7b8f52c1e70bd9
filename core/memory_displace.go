package core

// displaceLocked evicts one of the keys in the buckets of steps, which are full,
// so that a new key of class k has a place, and remembers its state in the floor
// of its class. It returns a place freed in the first two buckets.
//
// The victim is of the scope that has most keys there; where several have as many,
// of that of k if it is one of them. So a flood of keys in one scope displaces
// itself. Of those keys it is the one soonest fresh, of several such the one that
// has used least.
func (sh *shard) displaceLocked(steps []step, k *class, now int64) *entry {
	victim, from, mixed := sh.soonestLocked(steps, anyShare)
	if mixed {
		victim, from, _ = sh.soonestLocked(steps, int(sh.crowdedLocked(steps, k.share)))
	}
	sh.raiseFloorLocked(&victim.state, now)
	sh.clearLocked(victim)
	return sh.moveLocked(steps, from, victim)
}

const anyShare = -1

// soonestLocked returns the key of a share that is soonest fresh, of several such
// the one that has used least, and which step it is at. It also reports
// whether there are keys of several shares.
func (sh *shard) soonestLocked(steps []step, share int) (victim *entry, from int, mixed bool) {
	var soonest, least int64
	id := sh.buckets[steps[0].bucket][0].class
	k := sh.classes.get(id)
	first, wanted := k.share, share == anyShare || share == int(k.share)
	for i := range steps {
		places := &sh.buckets[steps[i].bucket]
		for j := range places {
			e := &places[j]
			if e.class != id {
				id, k = e.class, sh.classes.get(e.class)
				mixed = mixed || k.share != first
				wanted = share == anyShare || share == int(k.share)
			}
			if !wanted {
				continue
			}
			at := k.freshAt(&e.state)
			if victim != nil && at > soonest {
				continue
			}
			if units := k.counted(&e.state); victim == nil || at < soonest || units < least {
				victim, from, soonest, least = e, i, at, units
			}
		}
	}
	return victim, from, mixed
}

// crowdedLocked returns the share that has most keys in the buckets of steps,
// which is own if no other has more.
func (sh *shard) crowdedLocked(steps []step, own uint8) uint8 {
	var keys [shares]uint16
	most := own
	for i := range steps {
		places := &sh.buckets[steps[i].bucket]
		for j := range places {
			share := sh.classes.get(places[j].class).share
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
