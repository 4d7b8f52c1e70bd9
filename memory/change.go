package memory

import "github.com/weir-go/weir/internal/ground/family"

// change records what a key had in use when its limit changed (DESIGN 5, "Changing a limit under
// live state"). The first request under the new limit converts the state and stores a change. While
// no unit is taken, each limit that follows starts from the change, so a limit that comes back
// finds its old instant. If the units exceeded the new maximum, the change outlives takings: a
// larger limit that comes back finds all of them.
//
// An example. A key used 8 of 10 a day when a deploy at 12:00 limits it to 5 an hour:
//
//	12:00  the state becomes 5 in use, taken at 12:00; the change says 8, until midnight
//	12:20  10 a day comes back: 8 in use, as the change says, so 2 more fit
//	12:40  5 an hour again: 5 in use, taken at 12:00 as before, so it admits at 13:00
//	13:10  5 an hour takes 1; the change stays, since 8 is above 5
//	13:20  10 a day finds 8 in use: none of the 8 are back (1 taken since is less)
type change struct {
	units int64 // in use
	at    int64 // the instant at which they count as taken
	until int64 // when the former limit would have given all of them back
	state state // the converted state; if the key's state differs, units were taken since
	above bool  // units exceeds the maximum of the limit converted to
}

// taken reports whether units were taken or returned since the change.
func (c *change) taken(s *state) bool {
	return s.at != c.state.at || s.a != c.state.a || s.b != c.state.b
}

// changeLocked returns the change of e's key. ok is false if no limit starts from it any more.
func (sh *shard) changeLocked(e *entry, now int64) (c change, ok bool) {
	if c, ok = sh.changes[e.hash]; !ok || c.until <= now {
		return c, false
	}
	return c, c.above || !c.taken(&e.state)
}

// convertLocked returns the state of e under limit, which differs from the limit that wrote it. If
// writes is set and the converted state has units in use, it is stored.
//
// A state that is fresh under the limit that wrote it is fresh under any limit, since the store may
// have dropped it.
func (sh *shard) convertLocked(e *entry, limit *scopedLimit, now int64, writes bool) family.Used {
	from, s := sh.limits.get(e.limitID), e.used()
	if sh.carriesLocked(e, limit, now) {
		before, after := from.family.FreshAt(s), limit.family.FreshAt(s) // equal for logs of units
		if before <= now {
			return family.Used{}
		}
		if limit.Values { // drop the values that have expired under from
			sh.nodes.expire(&e.state, from, now)
		}
		if writes && after != before && after > now { // limit now decides when the state is fresh
			if limit.Values {
				sh.nodes.expire(&e.state, limit, now)
			} else {
				s, _ = sh.asOfLocked(limit, s, now)
				e.set(s)
			}
			e.limitID = limit.id
		}
		return e.used()
	}
	was, used := sh.asOfLocked(from, s, now)
	moves := from.Moves && limit.Moves && was.Moves()
	c, changed := sh.changeLocked(e, now)
	switch {
	case !changed:
		c = change{units: used, at: now, until: from.family.FreshAt(s)}
	case c.taken(&e.state): // limit counts the units of c less those that it has given back since
		expired := min(c.units, limit.Max) - sh.inUseOfLocked(&c, limit, moves, now)
		c = change{units: max(used, c.units-expired), at: now,
			until: max(c.until, from.family.FreshAt(s))}
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

// carriesLocked reports whether limit can use the state of e as it is. It cannot if the state was
// cut to a smaller maximum than limit's, and the change says that more is in use.
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

// inUseOfLocked returns how many units of c are still in use under limit at now.
func (sh *shard) inUseOfLocked(c *change, limit *scopedLimit, moves bool, now int64) int64 {
	_, inUse := sh.asOfLocked(limit, sh.stateOfLocked(c, limit, moves), now)
	return inUse
}

// stateOfLocked returns the state, under limit, of a key that took the units of c, at most the
// maximum, at the instant of c. moves keeps an anchored window whose start each taking moves.
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

// noteTakenLocked records that the state of a key is no longer the converted one, even if it looks
// the same.
func (sh *shard) noteTakenLocked(hash uint64) {
	if c, ok := sh.changes[hash]; ok {
		c.state = state{}
		sh.changes[hash] = c
	}
}

// overwriteLocked is called before a new state under limit replaces that of e, which has nothing in
// use under limit. It marks the change as taken, or removes it if no limit starts from it.
func (sh *shard) overwriteLocked(e *entry, limit *scopedLimit, now int64) {
	c, ok := sh.changeLocked(e, now)
	if !ok {
		delete(sh.changes, e.hash)
		return
	}
	if under := sh.limits.get(e.limitID); !limit.Carries(&under.Numbers) {
		c.above = c.units > limit.Max
	}
	c.state = state{}
	sh.changes[e.hash] = c
}

// storeChangeLocked stores c. When the map has doubled since the last sweep, it removes the changes
// that no limit starts from any more.
func (sh *shard) storeChangeLocked(hash uint64, c change, now int64) {
	if sh.changes == nil {
		sh.changes = make(map[uint64]change)
	}
	if len(sh.changes) >= sh.changesSweep {
		for hash := range sh.changes {
			if e := sh.findLocked(hash); e == nil {
				delete(sh.changes, hash)
			} else if _, ok := sh.changeLocked(e, now); !ok {
				delete(sh.changes, hash)
			}
		}
		sh.changesSweep = max(64, 2*len(sh.changes))
	}
	sh.changes[hash] = c
}
