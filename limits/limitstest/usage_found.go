package limitstest

import (
	"math/big"

	"github.com/weir-go/weir/limits"
)

// A charge may find a usage under another limit than its own, or from a later instant
// than the clock's.

// change is what a key had in use when it was first charged under another limit (DESIGN 5,
// "Changing a limit under live state").
type change struct {
	units int64
	at    int64 // they count as taken then
	until int64 // they would be gone under the limit that they were taken under
	taken bool  // units were taken since
	above bool  // they are more than the maximum of the limit converted to
}

// begin is the usage of a key that took the units of c under l, as many as fit, and nothing since. If
// c is far ahead when the clock says now, it is rebased, like a usage.
func (c change) begin(l limits.Limit, now int64) usage {
	if ahead := c.at - now; ahead > maxStepBack(l) {
		c.at, c.until = now, c.until-ahead
	}
	u := fresh(l, c.at)
	if n := min(c.units, l.Burst()); n > 0 {
		u = u.plus(c.at, n)
	}
	c.above = c.units > l.Burst()
	u.change = &c
	return u
}

// hasChange reports whether other limits start from the change of u when the clock says now. After a
// taking they do so only if the limit it converted to could not count all of it.
func (u usage) hasChange(now int64) bool {
	return u.change != nil && u.change.until > now && (!u.change.taken || u.change.above)
}

// keeping is u, which a taking left of found, with what it keeps of a change.
func (u usage) keeping(found usage) usage {
	u.change = nil
	if found.change != nil {
		c := *found.change
		c.taken = true
		u.change = &c
	}
	return u
}

// leavesNothingTo reports whether a change from the limit of u to l starts fresh: what
// counts for a ban is not what counts for a rate.
func (u usage) leavesNothingTo(l limits.Limit) bool {
	return u.limit.Algorithm() != l.Algorithm() && (u.limit.Algorithm() == limits.AlgorithmBan || l.Algorithm() == limits.AlgorithmBan)
}

// carriesTo reports whether u is also a usage under l when the clock says now. It is not if it was
// converted to a smaller maximum than that of l, and its change says that there is more in use.
func (u usage) carriesTo(l limits.Limit, now int64) bool {
	if !sameCounting(u.limit, l) {
		return false
	}
	if !u.hasChange(now) || !u.change.above || l.Burst() <= u.limit.Burst() {
		return true
	}
	whole := u.change.begin(l, now)
	return whole.inUse(max(now, whole.at)) <= u.inUse(max(now, u.at))
}

// changedTo is what a charge of limit l leaves of u when the clock says now, even if it takes nothing.
// What does not carry over is converted: the units in use count as taken now, or at the instant of
// the change before if nothing was taken since. What is fresh under its own limit is fresh under
// any: a backend may have dropped it.
func (u usage) changedTo(l limits.Limit, now int64) usage {
	u = u.rebasedBy(l, now)
	if u.limit == l || u.limit == (limits.Limit{}) || u.leavesNothingTo(l) {
		return u
	}
	if u.carriesTo(l, now) {
		changed := u
		changed.limit = l
		if u.isUnused(now) || changed.isUnused(now) || changed.freshAt() == u.freshAt() {
			return u
		}
		if hasWindows(l) { // its debt has been paid off as under l up to now
			if turned := changed.turned(max(now, u.at)); turned.at != u.at {
				turned.change = u.change
				return turned
			}
		}
		return changed // from now on it lasts as long as l says
	}
	x := max(now, u.at)
	c := change{units: u.inUse(x), at: x, until: u.freshAt()}
	if u.isUnused(now) { // all of it was returned, and only takings have the clock stand still
		c.at = now
	}
	if u.hasChange(now) && u.change.taken {
		before := u.change.begin(l, now)
		gone := min(u.change.units, l.Burst()) - before.inUse(max(now, before.at))
		c.units, c.until = max(c.units, u.change.units-gone), max(c.until, u.change.until)
	} else if u.hasChange(now) {
		c = *u.change
	}
	after := c.begin(l, now)
	if after.inUse(max(now, after.at)) == 0 {
		return u
	}
	return after
}

// foundBy is u as a charge of limit l finds it when the clock says now, and the
// instant at which that charge is decided: now, or later if the clock has
// stepped back.
func (u usage) foundBy(l limits.Limit, now int64) (usage, int64) {
	u = u.changedTo(l, now)
	if sameCounting(u.limit, l) && !u.isUnused(now) {
		if u.limit = l; !u.isUnused(now) {
			return u, max(now, u.at)
		}
	}
	found := fresh(l, now)
	if u.hasChange(now) && !u.leavesNothingTo(l) {
		c := *u.change
		if !sameCounting(u.limit, l) {
			c.above = c.units > l.Burst()
		}
		found.change = &c
	}
	return found, now
}

// rebased is u when the clock says now. A clock that is behind u.at stops there, unless
// it has stepped back by more than maxStepBack. Then nobody can tell how much time has
// passed since the last taking, so none has: a bucket keeps its level, and the units of
// a window or log count as taken now (DESIGN 5, a clock that steps back).
func (u usage) rebased(now int64) usage { return u.rebasedBeyond(maxStepBack(u.limit), now) }

// rebasedBy is rebased as a charge of limit l does it. Where u carries over to a limit with a shorter
// period, as a ban does, the longest step back is that of the shorter one. A store does not know the
// periods of another calendar than that which is charged: what was taken in them counts as taken now under l.
func (u usage) rebasedBy(l limits.Limit, now int64) usage {
	if sameCounting(u.limit, l) {
		return u.rebasedBeyond(min(maxStepBack(u.limit), maxStepBack(l)), now)
	}
	if u.limit.Algorithm() != limits.AlgorithmCalendar || u.rebased(now).at == u.at {
		return u.rebased(now)
	}
	if u.leavesNothingTo(l) {
		return u
	}
	length := windowEnd(u.at, u.limit) - u.at
	return change{units: u.inUse(u.at), at: now, until: now + length}.begin(l, now)
}

// rebasedBeyond is rebased with another longest step back.
func (u usage) rebasedBeyond(most, now int64) usage {
	if u.limit == (limits.Limit{}) || u.limit.Algorithm().Holds() || u.at-now <= most || u.isFresh(now) {
		return u
	}
	u.base, u.events = nil, nil // when what was taken, nobody can tell any more
	if u.change != nil {
		c, ahead := *u.change, max(0, u.change.at-now)
		c.at, c.until = c.at-ahead, c.until-ahead
		u.change = &c
	}
	switch {
	case isBucket(u.limit):
		u.at = now
		return u
	case u.limit.Algorithm() == limits.AlgorithmBan:
		u.at = now
		if u.until != 0 {
			u.until = now + u.limit.Lasting().Microseconds()
		}
		return u
	}
	back := fresh(u.limit, now)
	if n := min(u.inUse(u.at), u.limit.Burst()); n > 0 {
		back = back.plus(now, n)
	}
	back.change = u.change
	return back
}

// maxStepBack is the longest step back, in microseconds, at which the clock stops.
func maxStepBack(l limits.Limit) int64 {
	if isBucket(l) || l == (limits.Limit{}) || l.Algorithm().Holds() {
		return sec.Microseconds()
	}
	return max(sec.Microseconds(), micros(l))
}

// sameCounting reports whether usage under a carries over to b as it is.
func sameCounting(a, b limits.Limit) bool {
	if a.Algorithm() != b.Algorithm() {
		return false
	}
	if a.Algorithm() == limits.AlgorithmBan || a.Algorithm().Holds() {
		return true
	}
	if isBucket(a) {
		return big.NewRat(a.Rate().Units, micros(a)).Cmp(big.NewRat(b.Rate().Units, micros(b))) == 0
	}
	return micros(a) == micros(b) && a.Period() == b.Period()
}
