package memory

import "github.com/weir-go/weir/internal/ground/family"

// change is what a key had in use when its limit changed (DESIGN 5, "Changing a limit under live
// state"). The first request under the new limit converts the state and leaves a change. Limits that
// follow before units are taken start from it, so a limit that comes back finds the same instant.
// If the units were more than the new maximum, it outlives takings: a larger limit that comes back
// finds all of them.
type change struct {
	units int64 // in use
	at    int64 // when they count as taken
	until int64 // when the former limit would have given all of them back
	state state // as converted; units were taken since if the key has another
	above bool  // they are more than the maximum of the limit converted to
}

// taken reports whether units were taken or returned since.
func (c *change) taken(s *state) bool {
	return s.at != c.state.at || s.a != c.state.a || s.b != c.state.b
}

// changeLocked returns the change of the key of e, if other limits still start from it.
func (sh *shard) changeLocked(e *entry, now int64) (c change, ok bool) {
	if c, ok = sh.changes[e.hash]; !ok || c.until <= now {
		return c, false
	}
	return c, c.above || !c.taken(&e.state)
}

// convertLocked returns the state of e under limit, which is not the limit it was written under.
// If writes is set it replaces a state that converts to one with units in use.
//
// A state that is fresh under the limit it was written under is fresh under any, since the store may
// have dropped it.
func (sh *shard) convertLocked(e *entry, limit *scopedLimit, now int64, writes bool) family.Used {
	from, s := sh.limits.get(e.limitID), e.used()
	if sh.carriesLocked(e, limit, now) {
		before, after := from.family.FreshAt(s), limit.family.FreshAt(s) // equal for logs: their periods are
		if before <= now {
			return family.Used{}
		}
		if writes && after != before && after > now { // from now on limit says when it is fresh
			s, _ = sh.asOfLocked(limit, s, now)
			e.set(s)
			e.limitID = limit.id
		}
		return e.used()
	}
	if limit.Bans != from.Bans {
		return family.Used{}
	}
	was, used := sh.asOfLocked(from, s, now)
	moves := from.Moves && limit.Moves && was.Moves()
	c, changed := sh.changeLocked(e, now)
	switch {
	case !changed:
		c = change{units: used, at: now, until: from.family.FreshAt(s)}
	case c.taken(&e.state):
		expired := min(c.units, limit.Max) - sh.inUseOfLocked(&c, limit, moves, now)
		c = change{units: max(used, c.units-expired), at: now, until: max(c.until, from.family.FreshAt(s))}
	}
	if sh.inUseOfLocked(&c, limit, moves, now) == 0 {
		return family.Used{}
	}
	converted := sh.stateOfLocked(&c, limit, moves)
	if writes {
		converted.Serial = sh.serialLocked(limit, converted)
		sh.releaseLocked(&e.state)
		e.set(converted)
		e.limitID = limit.id
		c.state, c.above = e.state, c.units > limit.Max
		delete(sh.rings, e.hash)
		sh.storeChangeLocked(e.hash, c, now)
	}
	return converted
}

// carriesLocked reports whether the state of e is also one under limit. It is not if it was converted
// to a smaller maximum than that of limit, and the change says that there is more in use.
func (sh *shard) carriesLocked(e *entry, limit *scopedLimit, now int64) bool {
	from := sh.limits.get(e.limitID)
	if !limit.Carries(&from.Numbers) {
		return false
	}
	if limit.Max <= from.Max || len(sh.changes) == 0 {
		return true
	}
	c, changed := sh.changeLocked(e, now)
	if !changed || !c.above {
		return true
	}
	s, inUse := sh.asOfLocked(from, e.used(), now)
	return sh.inUseOfLocked(&c, limit, limit.Moves && s.Moves(), now) <= inUse
}

// inUseOfLocked returns how many units of a change limit counts at now.
func (sh *shard) inUseOfLocked(c *change, limit *scopedLimit, moves bool, now int64) int64 {
	_, inUse := sh.asOfLocked(limit, sh.stateOfLocked(c, limit, moves), now)
	return inUse
}

// stateOfLocked returns the state, under limit, of a key that took the units of a change at its instant,
// up to the maximum. An anchored window that each taking moves stays one.
func (sh *shard) stateOfLocked(c *change, limit *scopedLimit, moves bool) family.Used {
	n := min(c.units, limit.Max)
	if limit.Lists && n > 0 {
		return family.LogOf(n, c.at)
	}
	s, _ := sh.asOfLocked(limit, family.Used{}, c.at)
	s, _ = limit.family.Charge(s, n, 0, c.at)
	if moves {
		s = s.WithMoves()
	}
	return s
}

// noteTakenLocked notes that the state of a key is no longer the converted one, even if it looks so.
func (sh *shard) noteTakenLocked(hash uint64) {
	if c, ok := sh.changes[hash]; ok {
		c.state = state{}
		sh.changes[hash] = c
	}
}

// overwriteLocked notes that a state of limit replaces that of e, which had nothing in use under limit.
func (sh *shard) overwriteLocked(e *entry, limit *scopedLimit, now int64) {
	c, ok := sh.changeLocked(e, now)
	under := sh.limits.get(e.limitID)
	if !ok || limit.Bans != under.Bans {
		delete(sh.changes, e.hash)
		return
	}
	if !limit.Carries(&under.Numbers) {
		c.above = c.units > limit.Max
	}
	c.state = state{}
	sh.changes[e.hash] = c
}

// storeChangeLocked keeps c. Changes that no limit starts from any more are dropped when there are
// twice as many as at the last look.
func (sh *shard) storeChangeLocked(hash uint64, c change, now int64) {
	if sh.changes == nil {
		sh.changes = make(map[uint64]change)
	}
	if len(sh.changes) >= sh.changesLook {
		for hash := range sh.changes {
			if e := sh.findLocked(hash); e == nil {
				delete(sh.changes, hash)
			} else if _, ok := sh.changeLocked(e, now); !ok {
				delete(sh.changes, hash)
			}
		}
		sh.changesLook = max(64, 2*len(sh.changes))
	}
	sh.changes[hash] = c
}
