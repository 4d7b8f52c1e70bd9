package core

import "slices"

// isPastLocked reports whether somebody who had the lock has seen more steps of the
// clock than the caller had when it read the clock.
func (sh *shard) isPastLocked(steps int64) bool {
	if sh.steps > steps {
		return true
	}
	sh.steps = steps
	return false
}

// aheadLocked returns an instant, too far after now, that the shard has acted on
// and that a charge of class k on e depends on; 0 if there is none. e is nil for a
// key that has no entry.
func (sh *shard) aheadLocked(e *entry, k *class, now int64) int64 {
	if e != nil {
		if e.at-now > sh.classes.get(e.class).patience {
			return e.at
		}
		return 0
	}
	latest := int64(0)
	if sh.clearedAt > now {
		latest = sh.clearedAt
	}
	if sh.full && sh.newestAt-now > longestHeldStep {
		latest = max(latest, sh.newestAt)
	}
	for i := range sh.floors {
		if f := &sh.floors[i]; f.state.at-now > f.class.hold {
			latest = max(latest, f.state.at)
		}
	}
	if c := sh.coarseLocked(k); c != nil && c.at-now > c.hold {
		latest = max(latest, c.at)
	}
	return latest
}

func (sh *shard) floorsAheadLocked(now int64) bool {
	return slices.ContainsFunc(sh.floors, func(f floor) bool { return f.state.at-now > f.class.hold }) ||
		sh.coarse != nil && slices.ContainsFunc(sh.coarse[:], func(c coarseFloor) bool { return c.at-now > c.hold })
}

// rebaseLocked brings back the state of e, or the whole shard if e is nil, to a
// clock that has stepped back to now, and returns e. A peek gets a copy instead.
// Others do it whatever the decision: otherwise what a key has in use would count
// as taken now for as long as it is denied. A new key needs all of the shard brought
// back if it is full: otherwise keys far ahead would keep their places for all of the
// step.
func (sh *shard) rebaseLocked(e *entry, now int64, peeking bool) *entry {
	if e == nil {
		if !peeking {
			sh.rebaseAllLocked(now)
		}
		return nil
	}
	rebased, ok := sh.classes.get(e.class).rebased(e.state, now)
	switch {
	case ok && peeking:
		e = &entry{e.hash, rebased}
	case ok:
		sh.releaseLocked(&e.state, 0)
		e.state = rebased
	}
	return e
}

// rebaseAllLocked brings back every state and floor. It looks at every place, once
// for a step: some hundred microseconds.
func (sh *shard) rebaseAllLocked(now int64) {
	if !(sh.full && sh.newestAt-now > longestHeldStep) && !sh.floorsAheadLocked(now) {
		return
	}
	for b := range sh.buckets {
		for p := range sh.buckets[b] {
			if e := &sh.buckets[b][p]; !e.empty() {
				sh.rebaseLocked(e, now, false)
			}
		}
	}
	sh.rebaseFloorsLocked(now)
	sh.newestAt = now
}
