package backendtest

import (
	"math/big"

	"github.com/weir-go/weir/core"
)

// usage is what one key has in use, as the definitions have it (DESIGN 5, the
// table of algorithms). Instants are microseconds since the Unix epoch. A usage
// is never changed: taking makes a new one. The zero usage is fresh.
type usage struct {
	limit core.Limit

	// at is the instant before which time does not go for this key, whatever
	// the clock says. Buckets: when level was true, the last taking. Windows:
	// the start of the window that curr counts in. Log: the last taking. Anchored
	// windows: the taking that opened the window.
	at int64

	level      *big.Rat // buckets: units in use at at
	curr, prev int64    // windows: units taken in the window of at, and in the one before it (anchored: no such)
	takings    []taking // log, oldest first
}

// taking is an entry of the sliding log.
type taking struct{ at, units int64 }

// inUse is how many whole units cannot be had at instant x, which is not before
// u.at, if nothing is taken until then. n units fit if inUse + n is at most the
// maximum. It never grows with x.
func (u usage) inUse(x int64) int64 {
	switch u.limit.Algorithm() {
	case core.AlgorithmFixedWindow:
		if windowStart(x, u.limit) == u.at {
			return u.curr
		}
		return 0
	case core.AlgorithmSlidingWindow:
		p := micros(u.limit)
		start := windowStart(x, u.limit)
		switch start {
		case u.at:
			return floor(ratio(u.prev, p, p-(x-start))) + u.curr
		case u.at + p:
			return floor(ratio(u.curr, p, p-(x-start)))
		}
		return 0
	case core.AlgorithmAnchoredWindow:
		if u.open(x) {
			return u.curr
		}
		return 0
	case core.AlgorithmSlidingLog:
		sum := int64(0)
		for _, t := range u.takings {
			if x < t.at+micros(u.limit) {
				sum += t.units
			}
		}
		return sum
	}
	if !isBucket(u.limit) {
		return 0 // the zero usage
	}
	return ceil(u.levelAt(x))
}

// open reports whether the anchored window of u is open at instant x. There is none
// before anything is taken.
func (u usage) open(x int64) bool { return u.curr > 0 && x-u.at < micros(u.limit) }

// levelAt is the level of a bucket at instant x.
func (u usage) levelAt(x int64) *big.Rat {
	drained := ratio(u.limit.Rate().Units, micros(u.limit), x-u.at)
	level := new(big.Rat).Sub(u.level, drained)
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	return level
}

// freshAt is the first instant at which u equals the usage of a key that was
// never charged.
func (u usage) freshAt() int64 {
	switch p := micros(u.limit); {
	case isBucket(u.limit):
		return u.at + u.drainTime(u.level)
	case u.limit.Algorithm() == core.AlgorithmSlidingLog && len(u.takings) > 0:
		return u.takings[len(u.takings)-1].at + p
	case u.limit.Algorithm() == core.AlgorithmFixedWindow && u.curr > 0:
		return u.at + p
	case u.limit.Algorithm() == core.AlgorithmAnchoredWindow && u.curr > 0:
		return u.at + p
	case u.limit.Algorithm() == core.AlgorithmSlidingWindow && u.curr > 0:
		return u.at + 2*p
	case u.limit.Algorithm() == core.AlgorithmSlidingWindow && u.prev > 0:
		return u.at + p
	}
	return u.at
}

// isFresh reports whether u equals fresh usage when the clock says now.
func (u usage) isFresh(now int64) bool {
	return u.limit == core.Limit{} || max(now, u.at) >= u.freshAt()
}

// plus is u after n units were taken at instant x, which is not before u.at.
func (u usage) plus(x, n int64) usage {
	after := usage{limit: u.limit, at: x}
	switch u.limit.Algorithm() {
	case core.AlgorithmFixedWindow, core.AlgorithmSlidingWindow:
		after.at = windowStart(x, u.limit)
		switch after.at {
		case u.at:
			after.curr, after.prev = u.curr, u.prev
		case u.at + micros(u.limit):
			after.prev = u.curr
		}
		after.curr += n
	case core.AlgorithmAnchoredWindow:
		if u.open(x) {
			after.at, after.curr = u.at, u.curr
		}
		after.curr += n
	case core.AlgorithmSlidingLog:
		for _, t := range u.takings {
			if x < t.at+micros(u.limit) {
				after.takings = append(after.takings, t)
			}
		}
		after.takings = append(after.takings, taking{x, n})
	default:
		after.level = new(big.Rat).Add(u.levelAt(x), new(big.Rat).SetInt64(n))
	}
	return after
}

// inUseBy is inUse as a charge of limit l finds it. Units in use under another
// limit count, as many as either limit can hold.
func (u usage) inUseBy(l core.Limit, x int64) int64 {
	if u.limit == l {
		return u.inUse(x)
	}
	return min(u.inUse(x), u.limit.Burst(), l.Burst())
}

// plusBy is u after a charge of limit l took n units at instant x. Units in use
// under another limit count as taken then.
func (u usage) plusBy(l core.Limit, x, n int64) usage {
	if u.limit == l {
		return u.plus(x, n)
	}
	return fresh(l, x).plus(x, u.inUseBy(l, x)).plus(x, n)
}

// waitBy is the least d at which n units of limit l, at most its maximum, fit
// at x+d if nothing is taken until then; they do not fit at x.
func (u usage) waitBy(l core.Limit, x, n int64) int64 {
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
func (u usage) freshBy(l core.Limit, x int64) int64 {
	if u.limit == l || u.limit.Algorithm() != core.AlgorithmSlidingWindow {
		return max(x, u.freshAt())
	}
	if u.inUse(x) == 0 { // a window that weighs nothing may yet be there
		return x
	}
	return x + u.waitBy(l, x, l.Burst())
}

// drainTime is how many microseconds it takes a bucket to drain units.
func (u usage) drainTime(units *big.Rat) int64 {
	perUnit := big.NewRat(micros(u.limit), u.limit.Rate().Units)
	return ceil(perUnit.Mul(perUnit, units))
}

// fresh is the usage of a key that was never charged, under limit.
func fresh(limit core.Limit, now int64) usage {
	u := usage{limit: limit, at: now}
	switch {
	case isBucket(limit):
		u.level = new(big.Rat)
	case limit.Algorithm() == core.AlgorithmFixedWindow, limit.Algorithm() == core.AlgorithmSlidingWindow:
		u.at = windowStart(now, limit)
	}
	return u
}

// foundBy is u as a charge of limit l finds it when the clock says now, and the
// instant at which that charge is decided: now, or later if the clock has
// stepped back. What does not carry over to l stays under the limit that it was
// recorded with until something is taken (DESIGN 5, "Changing a limit under
// live state").
func (u usage) foundBy(l core.Limit, now int64) (usage, int64) {
	found := u
	if sameCounting(u.limit, l) {
		found.limit = l
	}
	x := max(now, u.at)
	if u.limit == (core.Limit{}) || found.freshBy(l, x) == x {
		return fresh(l, now), now
	}
	return found, x
}

// rebased is u when the clock says now. A clock that is behind u.at is held there,
// unless it has stepped back by more than hold: then no time has passed since the
// last taking that anybody could tell, so that a bucket keeps its level as of then,
// and what a window or log held counts as taken now (DESIGN 5, a clock that steps
// back).
func (u usage) rebased(now int64) usage { return u.rebasedBeyond(hold(u.limit), now) }

// rebasedBeyond is rebased where a step back by more than most is not held.
func (u usage) rebasedBeyond(most, now int64) usage {
	if u.limit == (core.Limit{}) || u.at-now <= most {
		return u
	}
	if isBucket(u.limit) {
		u.at = now
		return u
	}
	return fresh(u.limit, now).plus(now, min(u.inUse(u.at), u.limit.Burst()))
}

// hold is the longest step back of a clock, in microseconds, that is held.
func hold(l core.Limit) int64 {
	if isBucket(l) || l == (core.Limit{}) {
		return sec.Microseconds()
	}
	return max(sec.Microseconds(), micros(l))
}

// sameCounting reports whether usage under a carries over to b as it is.
func sameCounting(a, b core.Limit) bool {
	if a.Algorithm() != b.Algorithm() {
		return false
	}
	if isBucket(a) {
		return big.NewRat(a.Rate().Units, micros(a)).Cmp(big.NewRat(b.Rate().Units, micros(b))) == 0
	}
	return micros(a) == micros(b)
}

func isBucket(l core.Limit) bool {
	switch l.Algorithm() {
	case core.AlgorithmTokenBucket, core.AlgorithmLeakyBucket, core.AlgorithmLeakyQueue:
		return true
	}
	return false
}

// micros is the period of l in microseconds.
func micros(l core.Limit) int64 { return l.Rate().Period.Microseconds() }

// windowStart is the start of the window of l that x is in: a whole multiple of
// the period since the Unix epoch.
func windowStart(x int64, l core.Limit) int64 {
	return x - x%micros(l) // no instant of this suite is before the epoch
}

// ratio is a / b * c.
func ratio(a, b, c int64) *big.Rat {
	r := big.NewRat(a, b)
	return r.Mul(r, new(big.Rat).SetInt64(c))
}

func floor(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64() // Euclidean, and Denom is positive: rounds down
}

func ceil(r *big.Rat) int64 {
	return -floor(new(big.Rat).Neg(r))
}
