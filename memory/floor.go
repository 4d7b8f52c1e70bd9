package memory

import "github.com/weir-go/weir/internal/ground/family"

// What a shard has displaced is remembered in a summary of the scope: how many units a key may have
// in use, and until when. A key that is not found starts from there. So being displaced never
// gives a key a fresh budget, and the summary takes the same room whatever the limits.

// floor is the summary of a scope. Its steps are those that no other covers, in the order of their
// ends, so the first that has not ended has most units.
type floor struct {
	scope   uint64 // floorOf a limit; 0: all scopes
	steps   [floorSteps]floorStep
	limitID uint16 // what was displaced was all under this limit; 0: under several
}

// floorStep says that a key may have so many units in use until an instant. The zero step is none.
type floorStep struct{ units, until int64 }

const (
	// floorSteps is how many steps a floor has. Two that are next to each other become one where
	// there are more: as many units as the one has, for as long as the other lasts.
	floorSteps = 4

	// maxFloors is how many floors a shard has: 4 KiB. The last is for scopes that find no place. It
	// counts for all scopes, since a scope may have found one later.
	maxFloors = 51
)

// floorOf returns the number of the floor of limit. What counts for a ban is not what counts for a
// rate.
func floorOf(limit *scopedLimit) uint64 {
	if limit.Bans {
		return ^limit.scopeHash
	}
	return limit.scopeHash
}

// raiseFloorLocked adds a step, of a key that is displaced under limit, to the floor of its scope.
func (sh *shard) raiseFloorLocked(limit *scopedLimit, added floorStep, now int64) {
	if added.units == 0 || added.until <= now {
		return
	}
	if sh.floors == nil {
		sh.floors = make([]floor, 0, maxFloors)
	}
	scope := floorOf(limit)
	free := -1
	for i := range sh.floors {
		switch f := &sh.floors[i]; {
		case f.scope == scope:
			if f.used(now) == 0 {
				f.limitID = limit.id
			} else if f.limitID != limit.id {
				f.limitID = 0
			}
			f.raise(added, now)
			return
		case free < 0 && f.used(now) == 0:
			free = i
		}
	}
	switch {
	case free >= 0:
		sh.floors[free] = floor{scope: scope, limitID: limit.id}
	case len(sh.floors) < maxFloors-1:
		free = len(sh.floors)
		sh.floors = append(sh.floors, floor{scope: scope, limitID: limit.id})
	default:
		free = maxFloors - 1
		if len(sh.floors) < maxFloors {
			sh.floors = append(sh.floors, floor{})
		}
		sh.floors[free].scope, sh.floors[free].limitID = 0, 0
	}
	sh.floors[free].raise(added, now)
}

// raise adds a step, and drops those that have ended or that it covers.
func (f *floor) raise(added floorStep, now int64) {
	var all [floorSteps + 1]floorStep
	n, placed := 0, false
	for _, step := range f.steps {
		switch {
		case step.until <= now, step.units <= added.units && step.until <= added.until:
			continue
		case step.units >= added.units && step.until >= added.until:
			placed = true // it is covered
		case !placed && step.until > added.until:
			all[n], placed = added, true
			n++
		}
		all[n] = step
		n++
	}
	if !placed {
		all[n] = added
		n++
	}
	if n > floorSteps {
		least := 0
		for i := 1; i < n-1; i++ {
			if all[i].units-all[i+1].units < all[least].units-all[least+1].units {
				least = i
			}
		}
		all[least].until = all[least+1].until
		copy(all[least+1:], all[least+2:])
	}
	copy(f.steps[:], all[:])
	if n < floorSteps {
		clear(f.steps[n:])
	}
}

// used returns how many units a key of f may have in use at now.
func (f *floor) used(now int64) int64 {
	for _, step := range f.steps {
		if step.until > now {
			return step.units
		}
	}
	return 0
}

// floorLocked returns how many units a key under limit that is not found may have in use.
func (sh *shard) floorLocked(limit *scopedLimit, now int64) (used int64) {
	for i := range sh.floors {
		if f := &sh.floors[i]; f.scope == floorOf(limit) || f.scope == 0 {
			used = max(used, f.used(now))
		}
	}
	return used
}

// displacedOtherwiseLocked reports whether a key of limit that is not found may have been displaced
// under another limit. A state under limit would then hide what is remembered of it.
func (sh *shard) displacedOtherwiseLocked(limit *scopedLimit, now int64) bool {
	for i := range sh.floors {
		f := &sh.floors[i]
		may := f.scope == limit.scopeHash || f.scope == ^limit.scopeHash || f.scope == 0
		if may && f.limitID != limit.id && f.used(now) > 0 {
			return true
		}
	}
	return false
}

// floorWaitLocked returns the wait, from now, until a key under limit that is not found has at most
// so many units in use.
func (sh *shard) floorWaitLocked(limit *scopedLimit, most, now int64) (wait int64) {
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.scope != floorOf(limit) && f.scope != 0 {
			continue
		}
		for _, step := range f.steps {
			if step.units > most {
				wait = max(wait, step.until-now)
			}
		}
	}
	return wait
}

// rememberedLocked returns what is remembered of s, a state of limit. A ban is not inherited, but only
// the units short of it.
func (sh *shard) rememberedLocked(limit *scopedLimit, s family.Used, now int64) floorStep {
	s, t, _ := limit.family.Decide(s, 0, now, &sh.nodes)
	if limit.Bans {
		return floorStep{min(s.B, limit.Max-1), s.At + limit.Period}
	}
	return floorStep{t.InUse, now + t.Reset}
}
