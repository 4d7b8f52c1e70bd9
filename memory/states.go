package memory

import "github.com/weir-go/weir/internal/ground/family"

// states are what a shard knows of its keys beside the 32 bytes of their slots: the limits that
// wrote them, the nodes of logs, the rings of buckets, and the changes of limits.
type states struct {
	limits  *scopedLimits
	serial  uint16 // the latest serial that nextSerial gave to a state
	rings   rings
	changes changes
	logs    logs
}

// nextSerial returns the serial of s after a taking. A state that is new or was converted gets
// the next one. A leaky queue gets a new one with each taking, since only its last taking can be
// returned.
func (st *states) nextSerial(limit *scopedLimit, s family.Used) uint16 {
	if s.Serial != 0 && !limit.Queues {
		return s.Serial
	}
	if st.serial++; st.serial == 0 {
		st.serial = 1
	}
	return st.serial
}

// clear empties a slot.
func (st *states) clear(e *entry) {
	st.logs.forget(&e.state)
	st.changes.forget(e.hash)
	*e = entry{hash: vacated}
}

// reusable reports whether a new key may take the slot e: it is empty, or its state is fresh
// at now and no limit starts from a change of its key.
func (st *states) reusable(e *entry, now int64) bool {
	if e.empty() {
		return true
	}
	if st.limits.get(e.limitID).family.FreshAt(e.used()) > now {
		return false
	}
	if st.changes.empty() {
		return true
	}
	_, changed := st.changes.of(e, now)
	return !changed
}

// store writes s, to which units were just added, as the state of hash under limit into the slot e.
// found is false if the key had no slot, or lost it when another key of its group was stored after s
// was read.
func (st *states) store(e *entry, hash uint64, limit *scopedLimit, s family.Used, now int64,
	value uint64, t *table, found bool) {
	replaces := e.hash == hash && e.limitID != limit.id // a state of another limit
	if replaces {
		st.changes.overwrite(e, st.limits.get(e.limitID), limit, now)
	}
	if limit.lister != nil {
		st.logs.store(e, hash, limit, s, now, value, t, found)
		return
	}
	if replaces {
		st.logs.forget(&e.state)
	}
	e.hash, e.limitID = hash, limit.id
	e.set(s)
}

// noteLevel records the level that a taking under limit finds in the bucket of a hash: see
// [rings.note].
func (st *states) noteLevel(e *entry, hash uint64, limit *scopedLimit, t *table, lasts, now int64) {
	under := limit
	if e != nil && e.limitID != limit.id {
		under = st.limits.get(e.limitID)
	}
	st.rings.note(e, hash, under, limit, t, lasts, now)
}

// convert returns the state of e under limit, which differs from the limit that wrote it. If
// writes is set and the converted state has units in use, it is stored.
//
// A state that is fresh under the limit that wrote it is fresh under any limit, since the store may
// have dropped it.
func (st *states) convert(e *entry, limit *scopedLimit, t *table, now int64,
	writes bool) family.Used {
	from, s := st.limits.get(e.limitID), e.used()
	if st.carries(e, limit, now) {
		before := from.family.FreshAt(s)
		if before <= now {
			return family.Used{}
		}
		if limit.Given.Algorithm() != from.Given.Algorithm() { // of the same kind
			s = limit.family.Adopt(from.family.Plain(s, now))
		}
		after := limit.family.FreshAt(s)
		if limit.lister != nil { // drop what has expired under from
			s = from.lister.Expire(s, now, &st.logs.nodes)
			e.set(s)
		}
		if writes && after != before && after > now { // limit now decides when the state is fresh
			if limit.lister != nil {
				s = limit.lister.Expire(s, now, &st.logs.nodes)
			} else {
				s, _ = limit.asOf(s, now, &st.logs.nodes)
			}
			e.set(s)
			e.limitID = limit.id
		}
		return s
	}
	was, used := from.asOf(s, now, &st.logs.nodes)
	moves := from.Moves && limit.Moves && family.Anchored(was).Moves()
	c, changed := st.changes.of(e, now)
	switch {
	case !changed:
		c = change{units: used, at: now, until: from.family.FreshAt(s)}
	case c.taken(&e.state): // count the units of c, less those that would have expired under limit
		expired := min(c.units, limit.Max) - c.inUse(limit, moves, now, &st.logs.nodes)
		c = change{units: max(used, c.units-expired), at: now,
			until: max(c.until, from.family.FreshAt(s))}
	}
	if c.inUse(limit, moves, now, &st.logs.nodes) == 0 {
		return family.Used{}
	}
	converted := c.asState(limit, moves, &st.logs.nodes)
	if writes {
		converted.Serial = st.nextSerial(limit, converted)
		st.logs.forget(&e.state)
		e.set(converted)
		e.limitID = limit.id
		c.state, c.above = e.state, c.units > limit.Max
		st.rings.forget(e.hash)
		st.changes.store(e.hash, c, t, now)
	}
	return converted
}

// carries reports whether limit can use the state of e as it is. It cannot if the state was
// cut to a smaller maximum than limit's, and the change says that more is in use.
func (st *states) carries(e *entry, limit *scopedLimit, now int64) bool {
	from := st.limits.get(e.limitID)
	if !limit.Carries(&from.Numbers) {
		return false
	}
	if limit.Max <= from.Max || st.changes.empty() {
		return true
	}
	c, changed := st.changes.of(e, now)
	if !changed || !c.above {
		return true
	}
	s, inUse := from.asOf(e.used(), now, &st.logs.nodes)
	return c.inUse(limit, limit.Moves && family.Anchored(s).Moves(), now, &st.logs.nodes) <= inUse
}
