package memory

import "slices"

// isPastLocked reports whether another caller that had the lock knows of more steps of
// the clock than this caller did when it read the clock.
func (sh *shard) isPastLocked(steps int64) bool {
	if sh.steps > steps {
		return true
	}
	sh.steps = steps
	return false
}

// aheadLocked returns an instant, too far after now, at which the shard has acted and
// on which a charge under limit depends; 0 if there is none. e is the entry of the
// key, nil if it has none.
func (sh *shard) aheadLocked(e *entry, limit *scopedLimit, now int64) int64 {
	if e != nil {
		if e.at-now > sh.limits.get(e.limitID).maxAhead {
			return e.at
		}
		return 0
	}
	latest := int64(0)
	if sh.clearedAt > now {
		latest = sh.clearedAt
	}
	if sh.full && sh.newestAt-now > shortStepBack {
		latest = max(latest, sh.newestAt)
	}
	for i := range sh.floors {
		if f := &sh.floors[i]; f.state.at-now > f.limit.maxStepBack {
			latest = max(latest, f.state.at)
		}
	}
	if c := sh.coarseLocked(limit); c != nil && c.at-now > c.maxStepBack {
		latest = max(latest, c.at)
	}
	return latest
}

func (sh *shard) floorsAheadLocked(now int64) bool {
	return slices.ContainsFunc(sh.floors, func(f floor) bool { return f.state.at-now > f.limit.maxStepBack }) ||
		sh.coarse != nil && slices.ContainsFunc(sh.coarse[:], func(c coarseFloor) bool { return c.at-now > c.maxStepBack })
}

// rebaseLocked rebases the state of e to now, to which the clock has stepped back, and
// returns e. If e is nil it rebases the whole shard, if that is full or has floors too
// far ahead: otherwise keys far ahead would keep their slots for as long as the step.
// It rebases even if the request is denied: otherwise the units in use would count as
// taken now for as long as requests are denied. A peek changes nothing and gets a
// rebased copy.
func (sh *shard) rebaseLocked(e *entry, now int64, peeking bool) *entry {
	if e == nil {
		if !peeking {
			sh.rebaseAllLocked(now)
		}
		return nil
	}
	rebased, ok := sh.limits.get(e.limitID).rebased(e.state, now)
	switch {
	case ok && peeking:
		e = &entry{e.hash, rebased}
	case ok:
		sh.releaseLocked(&e.state, 0)
		e.state = rebased
		e.serial = 0
		sh.numberLocked(&e.state)
	}
	return e
}

// rebaseAllLocked rebases every state and floor. It looks at every slot, once for each
// step of the clock, in some hundred microseconds.
func (sh *shard) rebaseAllLocked(now int64) {
	if !(sh.full && sh.newestAt-now > shortStepBack) && !sh.floorsAheadLocked(now) {
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
