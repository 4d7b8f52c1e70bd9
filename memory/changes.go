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

// asState returns the state, under limit, of a key that took the units of c, at most the maximum,
// at the instant of c. moves keeps an anchored window whose start each taking moves.
func (c *change) asState(limit *scopedLimit, moves bool, lists *nodes) family.Used {
	n := min(c.units, limit.Max)
	if limit.lister != nil && n > 0 {
		return limit.lister.Begin(n, c.at)
	}
	s, _ := limit.asOf(family.Used{}, c.at, lists)
	s, _ = limit.family.Charge(s, n, 0, c.at)
	if moves {
		s = family.Used(family.Anchored(s).WithMoves())
	}
	return s
}

// inUse returns how many units of c are still in use under limit at now.
func (c *change) inUse(limit *scopedLimit, moves bool, now int64, lists *nodes) int64 {
	_, inUse := limit.asOf(c.asState(limit, moves, lists), now, lists)
	return inUse
}

// changes are those of the keys of a shard whose limit has changed.
type changes struct {
	byHash map[uint64]change
	sweep  int // at this size store sweeps
}

// of returns the change of e's key. ok is false if no limit starts from it any more.
func (cs *changes) of(e *entry, now int64) (c change, ok bool) {
	if c, ok = cs.byHash[e.hash]; !ok || c.until <= now {
		return c, false
	}
	return c, c.above || !c.taken(&e.state)
}

// empty reports whether no key has a change.
func (cs *changes) empty() bool { return len(cs.byHash) == 0 }

// forget removes the change of a hash.
func (cs *changes) forget(hash uint64) { delete(cs.byHash, hash) }

// noteTaken records that the state of a key is no longer the converted one, even if it looks the
// same.
func (cs *changes) noteTaken(hash uint64) {
	if c, ok := cs.byHash[hash]; ok {
		c.state = state{}
		cs.byHash[hash] = c
	}
}

// overwrite is called before a new state under limit replaces that of e, which has nothing in use
// under limit; under wrote it. It marks the change as taken, or removes it if no limit starts from
// it.
func (cs *changes) overwrite(e *entry, under, limit *scopedLimit, now int64) {
	c, ok := cs.of(e, now)
	if !ok {
		cs.forget(e.hash)
		return
	}
	if !limit.Carries(&under.Numbers) {
		c.above = c.units > limit.Max
	}
	c.state = state{}
	cs.byHash[e.hash] = c
}

// store stores c. When the map has doubled since the last sweep, it removes the changes that no
// limit starts from any more.
func (cs *changes) store(hash uint64, c change, t *table, now int64) {
	if cs.byHash == nil {
		cs.byHash = make(map[uint64]change)
	}
	if len(cs.byHash) >= cs.sweep {
		for hash := range cs.byHash {
			if e := t.find(hash); e == nil {
				delete(cs.byHash, hash)
			} else if _, ok := cs.of(e, now); !ok {
				delete(cs.byHash, hash)
			}
		}
		cs.sweep = max(64, 2*len(cs.byHash))
	}
	cs.byHash[hash] = c
}
