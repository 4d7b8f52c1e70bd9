package memory

import (
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/family"
)

// A shard remembers the keys that it displaced in one summary for each scope: how many units such a
// key may have in use, and until when. A key that is not found starts from the summary. So a
// displaced key never gets a fresh budget, and a summary has the same size for every limit.
//
// An example. At 0 s a shard displaces three keys of one scope:
//
//	3 units, until 10 s     steps: 3 until 10 s
//	9 units, until 4 s      steps: 9 until 4 s, 3 until 10 s
//	2 units, until 8 s      steps: as before; 3 until 10 s covers it
//
// A key that is not found starts with 9 units before 4 s, with 3 until 10 s, and then with none.

// floor is the summary of a scope: the steps that no other step covers, by their ends. So later
// steps have fewer units, and the first step that has not ended has the most.
type floor struct {
	scope   uint64 // the scopeHash of its limits; a kindMask: all scopes of that kind
	steps   [floorSteps]floorStep
	limitID uint16 // the limit of all keys displaced into it; 0: several limits
}

// floorStep says that a key may have units in use until an instant. The zero value is no step.
type floorStep struct{ units, until int64 }

const (
	// floorSteps is how many steps a floor has. A fifth step merges two neighbours into one that
	// covers both: 9 until 4 s and 8 until 6 s become 9 until 6 s.
	floorSteps = 4

	// maxFloors is how many floors a shard has: 4 KiB. The first sharedFloors are for scopes that
	// find no other floor free, one for each kind of counting. Such a floor counts for all scopes of
	// its kind, since such a scope may get a floor of its own later.
	maxFloors    = 51
	sharedFloors = algorithm.Kinds
)

// raiseFloorLocked adds the step of a key that is displaced under limit to the floor of its scope.
func (sh *shard) raiseFloorLocked(limit *scopedLimit, added floorStep, now int64) {
	if added.units == 0 || added.until <= now {
		return
	}
	if sh.floors == nil {
		sh.floors = make([]floor, sharedFloors, maxFloors)
		for kind := range sh.floors {
			sh.floors[kind].scope = kindMasks[kind]
		}
	}
	scope := limit.scopeHash
	free := -1
	for i := sharedFloors; i < len(sh.floors); i++ {
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
	case len(sh.floors) < maxFloors:
		free = len(sh.floors)
		sh.floors = append(sh.floors, floor{scope: scope, limitID: limit.id})
	default:
		free = int(limit.Kind)
	}
	sh.floors[free].raise(added, now)
}

// raise adds a step, and drops the steps that have ended or that it covers. If there are too many,
// it merges the two neighbours whose units differ least.
func (f *floor) raise(added floorStep, now int64) {
	var steps [floorSteps + 1]floorStep
	n, placed := 0, false
	for _, step := range f.steps {
		switch {
		case step.until <= now, step.units <= added.units && step.until <= added.until:
			continue
		case step.units >= added.units && step.until >= added.until:
			placed = true // an older step covers it
		case !placed && step.until > added.until:
			steps[n], placed = added, true
			n++
		}
		steps[n] = step
		n++
	}
	if !placed {
		steps[n] = added
		n++
	}
	if n > floorSteps {
		least := 0
		for i := 1; i < n-1; i++ {
			if steps[i].units-steps[i+1].units < steps[least].units-steps[least+1].units {
				least = i
			}
		}
		steps[least].until = steps[least+1].until
		copy(steps[least+1:], steps[least+2:])
	}
	copy(f.steps[:], steps[:])
	if n < floorSteps {
		clear(f.steps[n:])
	}
}

// isOf reports whether keys of limit may have been displaced into f.
func (f *floor) isOf(limit *scopedLimit) bool {
	return f.scope == limit.scopeHash || f.scope == kindMasks[limit.Kind]
}

// used returns how many units a key that was displaced into f may have in use at now.
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
		if f := &sh.floors[i]; f.isOf(limit) {
			used = max(used, f.used(now))
		}
	}
	return used
}

// displacedOtherwiseLocked reports whether a key of limit that is not found may have been displaced
// under another limit. A new state under limit would then hide the summary.
func (sh *shard) displacedOtherwiseLocked(limit *scopedLimit, now int64) bool {
	for i := range sh.floors {
		f := &sh.floors[i]
		if f.isOf(limit) && f.limitID != limit.id && f.used(now) > 0 {
			return true
		}
	}
	return false
}

// floorWaitLocked returns the wait until a key under limit that is not found has no more than most
// units in use.
func (sh *shard) floorWaitLocked(limit *scopedLimit, most, now int64) (wait int64) {
	for i := range sh.floors {
		f := &sh.floors[i]
		if !f.isOf(limit) {
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

// rememberedLocked returns the step for s, a state of limit that is displaced. Of a banned key it
// keeps one unit less than the number that bans, so that no key inherits a ban.
func (sh *shard) rememberedLocked(limit *scopedLimit, s family.Used, now int64) floorStep {
	s, t, _ := limit.family.Decide(s, 0, now, &sh.nodes)
	if limit.Bans {
		return floorStep{min(s.B, limit.Max-1), s.At + limit.Period}
	}
	return floorStep{t.InUse, now + t.Reset}
}
