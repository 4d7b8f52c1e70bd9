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

// floors are the summaries of a shard: 4 KiB, and 5 KiB more for each kind of counting if keys of
// more than maxOwn scopes are displaced.
type floors struct {
	own    []floor   // each of one scope, at most maxOwn
	shared [][]floor // by kind, for scopes that found no own floor free; nil until the first
}

// floor is the summary of a scope, or of several that share it: the steps that no other step
// covers, by their ends. So later steps have fewer units, and the first step that has not ended has
// the most.
type floor struct {
	scope   uint64 // the scopeHash of its limits, if it is an own floor
	steps   [floorSteps]floorStep
	limitID uint16 // the limit of all keys displaced into it; 0: several limits, or a shared floor
}

// floorStep says that a key may have units in use until an instant. The zero value is no step.
type floorStep struct{ units, until int64 }

const (
	// floorSteps is how many steps a floor has. A fifth step merges two neighbours into one that
	// covers both: 9 until 4 s and 8 until 6 s become 9 until 6 s.
	floorSteps = 4

	maxOwn = 51 // 4 KiB

	// sharedFloors is how many shared floors a kind has: 5 KiB. The hash of a scope chooses one of
	// them. A flood of 60 scopes has nine without an own floor. So it denies new keys of one in
	// seven other scopes, and a flood of 100 scopes those of one in two.
	sharedFloors = 64
)

// none is the floor of a scope without one.
var none floor

// of returns the own floor of a scope and the one that it may share. A scope may have keys in both,
// since it may find an own floor free later.
func (f *floors) of(limit *scopedLimit) (own, shared *floor) {
	own, shared = &none, &none
	for i := range f.own {
		if f.own[i].scope == limit.scopeHash {
			own = &f.own[i]
			break
		}
	}
	if f.shared != nil && f.shared[limit.Kind] != nil {
		shared = &f.shared[limit.Kind][limit.scopeHash%sharedFloors]
	}
	return own, shared
}

// raise adds the step of a key that is displaced under limit to a floor of its scope.
func (f *floors) raise(limit *scopedLimit, added floorStep, now int64) {
	if added.units != 0 && added.until > now {
		f.toRaise(limit, now).raise(added, now)
	}
}

// toRaise returns the floor for a key that is displaced under limit: the own floor of its scope, or
// a free one, or the shared one.
func (f *floors) toRaise(limit *scopedLimit, now int64) *floor {
	if f.own == nil {
		f.own = make([]floor, 0, maxOwn)
	}
	free := -1
	for i := range f.own {
		switch own := &f.own[i]; {
		case own.scope == limit.scopeHash:
			if own.used(now) == 0 {
				own.limitID = limit.id
			} else if own.limitID != limit.id {
				own.limitID = 0
			}
			return own
		case free < 0 && own.used(now) == 0:
			free = i
		}
	}
	switch {
	case free < 0 && len(f.own) == maxOwn:
		return f.toShare(limit)
	case free < 0:
		free = len(f.own)
		f.own = f.own[:free+1]
	}
	f.own[free] = floor{scope: limit.scopeHash, limitID: limit.id}
	return &f.own[free]
}

// toShare returns the shared floor of limit's scope.
func (f *floors) toShare(limit *scopedLimit) *floor {
	if f.shared == nil {
		f.shared = make([][]floor, algorithm.Kinds)
	}
	if f.shared[limit.Kind] == nil {
		f.shared[limit.Kind] = make([]floor, sharedFloors)
	}
	return &f.shared[limit.Kind][limit.scopeHash%sharedFloors]
}

// used returns how many units a key under limit that is not found may have in use.
func (f *floors) used(limit *scopedLimit, now int64) int64 {
	own, shared := f.of(limit)
	return max(own.used(now), shared.used(now))
}

// hides reports whether a new state under limit would hide units of a key that is not found: it may
// have been displaced under another limit.
func (f *floors) hides(limit *scopedLimit, now int64) bool {
	own, shared := f.of(limit)
	return own.limitID != limit.id && own.used(now) > 0 || shared.used(now) > 0
}

// wait returns the wait until a key under limit that is not found has no more than most units in
// use.
func (f *floors) wait(limit *scopedLimit, most, now int64) int64 {
	own, shared := f.of(limit)
	return max(own.wait(most, now), shared.wait(most, now))
}

// forget clears the ids of limits that are not in use: each may soon name another limit.
func (f *floors) forget(inUse []bool) {
	for i := range f.own {
		if own := &f.own[i]; !inUse[own.limitID] {
			own.limitID = 0
		}
	}
}

// empty reports whether no key was displaced into f.
func (f *floors) empty() bool { return f.own == nil }

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

// used returns how many units a key that was displaced into f may have in use at now.
func (f *floor) used(now int64) int64 {
	for _, step := range f.steps {
		if step.until > now {
			return step.units
		}
	}
	return 0
}

// wait returns the wait until a key that was displaced into f has no more than most units in use.
func (f *floor) wait(most, now int64) (wait int64) {
	for _, step := range f.steps {
		if step.units > most {
			wait = max(wait, step.until-now)
		}
	}
	return wait
}
