package limitstest

import (
	"github.com/weir-go/weir/limits"
)

// A charge may find a usage of another limit, or of a later instant than the clock's. This file
// converts and rebases such a usage.

// change records what a key had in use when it was first charged under another limit (DESIGN 5,
// "Changing a limit under live state").
type change struct {
	units int64
	at    int64 // the instant at which they count as taken
	until int64 // when the former limit would have given all back
	taken bool  // units were taken since
	above bool  // units exceeds the maximum of the new limit
}

// begin returns the usage of a key that took the units of c under l, as many as fit, and nothing
// since. If c is too far ahead of the clock, which shows now, it is rebased like a usage.
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

// hasChange reports whether other limits start from the change of u when the clock shows now. After
// a taking they do so only if the new limit could not count all of its units.
func (u usage) hasChange(now int64) bool {
	return u.change != nil && u.change.until > now && (!u.change.taken || u.change.above)
}

// keeping returns u, the usage that a taking made of found, with the change of found, now taken.
func (u usage) keeping(found usage) usage {
	u.change = nil
	if found.change != nil {
		c := *found.change
		c.taken = true
		u.change = &c
	}
	return u
}

// carriesTo reports whether l can use u as it is when the clock shows now. It cannot if u was cut
// to a smaller maximum than l's, and the change of u says that more is in use.
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

// changedTo returns u after a charge of limit l has found it, even if that takes nothing, when the
// clock shows now. A usage that does not carry over is converted: the units in use count as taken
// now, or at the instant of the former change if nothing was taken since. A usage that is fresh
// under its own limit is fresh under every limit, since a backend may have dropped it.
func (u usage) changedTo(l limits.Limit, now int64) usage {
	u = u.rebasedBy(l, now)
	if u.limit == l || u.limit == (limits.Limit{}) {
		return u
	}
	if u.carriesTo(l, now) {
		changed := u.model().under(u, l, max(now, u.at))
		if u.isUnused(now) || changed.isUnused(now) || changed.freshAt() == u.freshAt() {
			return u
		}
		// up to now its debt has fallen as under l
		if turned := changed.turned(max(now, u.at)); hasWindows(l) && turned.at != u.at {
			turned.change = u.change
			return turned
		}
		return changed // l now decides how long it lasts
	}
	x := max(now, u.at)
	c := change{units: u.inUse(x), at: x, until: u.freshAt()}
	if u.isUnused(now) { // all was returned, and only takings stop the clock
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

// foundBy returns u as a charge of limit l finds it when the clock shows now, and the instant at
// which that charge is decided: now, or later if the clock has stepped back.
func (u usage) foundBy(l limits.Limit, now int64) (usage, int64) {
	u = u.changedTo(l, now)
	if sameCounting(u.limit, l) && !u.isUnused(now) {
		x := max(now, u.at)
		if u.limit.Algorithm() != l.Algorithm() {
			u = u.model().under(u, l, x)
		}
		if u.limit = l; !u.isUnused(now) {
			return u, x
		}
	}
	found := fresh(l, now)
	if u.hasChange(now) {
		c := *u.change
		if !sameCounting(u.limit, l) {
			c.above = c.units > l.Burst()
		}
		found.change = &c
	}
	return found, now
}

// rebased returns u when the clock shows now. A clock behind u.at stops at u.at, unless it has
// stepped back by more than maxStepBack. Then the time since the last taking is unknown and counts
// as none: a bucket keeps its level, and the units of a window or log count as taken now (DESIGN 5,
// a clock that steps back). What a window owes, it owes on.
func (u usage) rebased(now int64) usage { return u.rebasedBeyond(maxStepBack(u.limit), now) }

// rebasedBy is rebased by a charge of limit l. If u carries over to a limit with a shorter period,
// as a ban does, the shorter period bounds the step back.
func (u usage) rebasedBy(l limits.Limit, now int64) usage {
	if sameCounting(u.limit, l) {
		return u.rebasedBeyond(min(maxStepBack(u.limit), maxStepBack(l)), now)
	}
	return u.model().rebasedBy(u, l, now)
}

// rebasedBeyond is rebased for steps back of more than most.
func (u usage) rebasedBeyond(most, now int64) usage {
	if u.limit == (limits.Limit{}) || u.limit.Algorithm().Holds() || u.at-now <= most ||
		u.isFresh(now) {
		return u
	}
	u.base, u.events = nil, nil // the instants of earlier takings are lost
	if u.change != nil {
		c, ahead := *u.change, max(0, u.change.at-now)
		c.at, c.until = c.at-ahead, c.until-ahead
		u.change = &c
	}
	return u.model().rebased(u, now)
}

// maxStepBack returns the longest step back, in microseconds, at which the clock stops.
func maxStepBack(l limits.Limit) int64 {
	return algorithmOf(l).model.stepBack(l)
}

// sameCounting reports whether b can use a usage of a as it is, after what [model].under changes.
// Limits of a kind other than rates share their states.
func sameCounting(a, b limits.Limit) bool {
	if a.Algorithm() != b.Algorithm() {
		return countedBy(a) == countedBy(b) && !isRate(a)
	}
	return algorithmOf(a).model.sameCounting(a, b)
}
