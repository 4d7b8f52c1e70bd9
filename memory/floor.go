package memory

import "github.com/weir-go/weir/internal/ground/algorithm"

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

// floors are the floors of a shard. Most scopes have one of their own. A scope that finds none free
// shares one with the scopes of its kind whose hashes say so. A flood over n such scopes reaches
// another one with odds of n to sharedFloors.
type floors struct {
	own    []floor                  // at most ownFloors
	shared [algorithm.Kinds][]floor // sharedFloors each; nil until a scope needs one
}

const (
	ownFloors    = 47 // 4 KiB
	sharedFloors = 128
)

// floor is a summary: the steps that no other step covers, by their ends. So later steps have fewer
// units, and the first step that has not ended has the most.
type floor struct {
	scope   uint64 // the scopeHash of its limits; 0 if it is shared
	steps   [floorSteps]floorStep
	limitID uint16 // the limit of all keys displaced into it; 0: several limits
}

// floorStep says that a key may have units in use until an instant. The zero value is no step.
type floorStep struct{ units, until int64 }

// floorSteps is how many steps a floor has. A fifth step merges two neighbours into one that covers
// both: 9 until 4 s and 8 until 6 s become 9 until 6 s.
const floorSteps = 4

// raise adds the step of a key that is displaced under limit to a floor of its scope, and returns
// fs; fs may be nil.
func (fs *floors) raise(limit *scopedLimit, added floorStep, now int64) *floors {
	if added.units == 0 || added.until <= now {
		return fs
	}
	if fs == nil {
		fs = &floors{own: make([]floor, 0, ownFloors)}
	}
	fs.of(limit, now).raise(added, now)
	return fs
}

// of returns the floor for a key that is displaced under limit.
func (fs *floors) of(limit *scopedLimit, now int64) *floor {
	free := -1
	for i := range fs.own {
		switch f := &fs.own[i]; {
		case f.scope == limit.scopeHash:
			if f.used(now) == 0 {
				f.limitID = limit.id
			} else if f.limitID != limit.id {
				f.limitID = 0
			}
			return f
		case free < 0 && f.used(now) == 0:
			free = i
		}
	}
	if free < 0 && len(fs.own) < ownFloors {
		free = len(fs.own)
		fs.own = fs.own[:free+1]
	}
	if free >= 0 {
		fs.own[free] = floor{scope: limit.scopeHash, limitID: limit.id}
		return &fs.own[free]
	}
	if fs.shared[limit.Kind] == nil {
		fs.shared[limit.Kind] = make([]floor, sharedFloors)
	}
	return fs.sharedBy(limit)
}

// ownOf returns the floor of the scope of limit, or nil.
func (fs *floors) ownOf(limit *scopedLimit) *floor {
	if fs == nil {
		return nil
	}
	for i := range fs.own {
		if f := &fs.own[i]; f.scope == limit.scopeHash {
			return f
		}
	}
	return nil
}

// sharedBy returns the floor that the scope of limit shares with others, or nil. It counts even if
// the scope has got one of its own since.
func (fs *floors) sharedBy(limit *scopedLimit) *floor {
	if fs == nil || fs.shared[limit.Kind] == nil {
		return nil
	}
	return &fs.shared[limit.Kind][limit.scopeHash%sharedFloors]
}

// used returns how many units a key under limit that is not found may have in use.
func (fs *floors) used(limit *scopedLimit, now int64) int64 {
	return max(fs.ownOf(limit).used(now), fs.sharedBy(limit).used(now))
}

// ofOthers reports whether a key of limit that is not found may have been displaced under another
// limit. A new state under limit would then hide the summary.
func (fs *floors) ofOthers(limit *scopedLimit, now int64) bool {
	own := fs.ownOf(limit)
	return own.used(now) > 0 && own.limitID != limit.id || fs.sharedBy(limit).used(now) > 0
}

// wait returns the wait until a key under limit that is not found has no more than most units in
// use.
func (fs *floors) wait(limit *scopedLimit, most, now int64) int64 {
	return max(fs.ownOf(limit).wait(most, now), fs.sharedBy(limit).wait(most, now))
}

// forget takes the ids of limits that are not in use out of the floors: they may soon name others.
func (fs *floors) forget(inUse []bool) {
	if fs == nil {
		return
	}
	for i := range fs.own {
		if f := &fs.own[i]; !inUse[f.limitID] {
			f.limitID = 0
		}
	}
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

// used returns how many units a key that was displaced into f may have in use at now. f may be nil.
func (f *floor) used(now int64) int64 {
	if f == nil {
		return 0
	}
	for _, step := range f.steps {
		if step.until > now {
			return step.units
		}
	}
	return 0
}

// wait returns the wait until a key that was displaced into f has no more than most units in use. f
// may be nil.
func (f *floor) wait(most, now int64) (wait int64) {
	if f == nil {
		return 0
	}
	for _, step := range f.steps {
		if step.units > most {
			wait = max(wait, step.until-now)
		}
	}
	return wait
}
