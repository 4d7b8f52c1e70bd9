package limitstest

import (
	"math/big"

	"github.com/weir-go/weir/limits"
)

// A charge may find a usage under another limit than its own, or from a later instant
// than the clock's.

// inUseBy is inUse as a charge of limit l finds it. Units in use under another
// limit count, at most the maximum of either.
func (u usage) inUseBy(l limits.Limit, x int64) int64 {
	if u.limit == l {
		return u.inUse(x)
	}
	return min(u.inUse(x), u.limit.Burst(), l.Burst())
}

// plusBy is u after a charge of limit l took n units at instant x. Units in use
// under another limit count as taken then.
func (u usage) plusBy(l limits.Limit, x, n int64) usage {
	if u.limit == l {
		return u.plus(x, n)
	}
	return fresh(l, x).plus(x, u.inUseBy(l, x)).plus(x, n)
}

// leavesNothingTo reports whether a change from the limit of u to l starts fresh: what
// counts for a ban is not what counts for a rate.
func (u usage) leavesNothingTo(l limits.Limit) bool {
	return u.limit.Algorithm() != l.Algorithm() && (u.limit.Algorithm() == limits.AlgorithmBan || l.Algorithm() == limits.AlgorithmBan)
}

// waitBy is the least d at which n units of limit l, at most its maximum, fit
// at x+d if nothing is taken until then; they do not fit at x.
func (u usage) waitBy(l limits.Limit, x, n int64) int64 {
	if u.limit == l && isBucket(l) {
		tooMuch := new(big.Rat).Add(u.levelAt(x), new(big.Rat).SetInt64(n-l.Burst()))
		return u.drainTime(tooMuch)
	}
	denied, allowed := int64(0), u.freshAt()-x
	for allowed-denied > 1 {
		middle := denied + (allowed-denied)/2
		if u.inUseBy(l, x+middle)+n <= l.Burst() {
			allowed = middle
		} else {
			denied = middle
		}
	}
	return allowed
}

// freshBy is the first instant from x on at which a charge of limit l finds u
// as it finds a key that was never charged: for units in use under another
// limit, when none is in use any more.
func (u usage) freshBy(l limits.Limit, x int64) int64 {
	if u.limit == l || u.limit.Algorithm() != limits.AlgorithmSlidingWindow {
		return max(x, u.freshAt())
	}
	if u.inUse(x) == 0 { // a window that weighs nothing may yet be there
		return x
	}
	return x + u.waitBy(l, x, l.Burst())
}

// foundBy is u as a charge of limit l finds it when the clock says now, and the
// instant at which that charge is decided: now, or later if the clock has
// stepped back. What does not carry over to l stays under the limit that it was
// recorded with until something is taken (DESIGN 5, "Changing a limit under
// live state"). What is fresh under that limit is fresh under any: a backend may
// have dropped it.
func (u usage) foundBy(l limits.Limit, now int64) (usage, int64) {
	found := u
	if sameCounting(u.limit, l) {
		found.limit = l
	}
	x := max(now, u.at)
	if u.isFresh(now) || found.freshBy(l, x) == x || u.leavesNothingTo(l) {
		return fresh(l, now), now
	}
	if found.limit == l && u.freshAt() < found.freshAt() {
		found.gone = u.freshAt()
	}
	return found, x
}

// rebased is u when the clock says now. A clock that is behind u.at stops there, unless
// it has stepped back by more than maxStepBack. Then nobody can tell how much time has
// passed since the last taking, so none has: a bucket keeps its level, and the units of
// a window or log count as taken now (DESIGN 5, a clock that steps back).
func (u usage) rebased(now int64) usage { return u.rebasedBeyond(maxStepBack(u.limit), now) }

// rebasedBy is rebased as a charge of limit l does it. A store does not know the periods of another
// calendar than that which is charged: what was taken in them counts as taken now under l.
func (u usage) rebasedBy(l limits.Limit, now int64) usage {
	if u.limit.Algorithm() != limits.AlgorithmCalendar || sameCounting(u.limit, l) || u.rebased(now).at == u.at {
		return u.rebased(now)
	}
	if u.leavesNothingTo(l) {
		return u
	}
	return fresh(l, now).plus(now, u.inUseBy(l, u.at))
}

// rebasedBeyond is rebased with another longest step back.
func (u usage) rebasedBeyond(most, now int64) usage {
	if u.limit == (limits.Limit{}) || u.limit.Algorithm() == limits.AlgorithmConcurrent || u.at-now <= most || u.isFresh(now) {
		return u
	}
	u.base, u.events = nil, nil // when what was taken, nobody can tell any more
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
	return fresh(u.limit, now).plus(now, min(u.inUse(u.at), u.limit.Burst()))
}

// maxStepBack is the longest step back, in microseconds, at which the clock stops.
func maxStepBack(l limits.Limit) int64 {
	if isBucket(l) || l == (limits.Limit{}) || l.Algorithm() == limits.AlgorithmConcurrent {
		return sec.Microseconds()
	}
	return max(sec.Microseconds(), micros(l))
}

// sameCounting reports whether usage under a carries over to b as it is.
func sameCounting(a, b limits.Limit) bool {
	if a.Algorithm() != b.Algorithm() {
		return false
	}
	if a.Algorithm() == limits.AlgorithmBan || a.Algorithm() == limits.AlgorithmConcurrent {
		return true
	}
	if isBucket(a) {
		return big.NewRat(a.Rate().Units, micros(a)).Cmp(big.NewRat(b.Rate().Units, micros(b))) == 0
	}
	return micros(a) == micros(b) && a.Period() == b.Period()
}
