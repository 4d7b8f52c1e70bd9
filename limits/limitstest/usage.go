package limitstest

import (
	"math"
	"math/big"
	"slices"

	"github.com/weir-go/weir/limits"
)

// usage is the state of one key, as the definitions say (DESIGN 5, the table of algorithms).
// Instants are in microseconds since the Unix epoch. A usage never changes: a taking returns a
// new one. The zero usage is fresh.
type usage struct {
	limit limits.Limit

	// at is, for a bucket or a log, the instant of the last taking. For windows it is the start of
	// the window that curr counts in; for an anchored window, the taking that opened it. If the
	// clock steps back, it stops at this instant for this key.
	at int64

	level      *big.Rat // buckets: the units in use at the instant at
	curr, prev int64    // windows: units in the window of at, and in the one before; bans: curr only
	takings    []taking // log, oldest first

	debt  int64  // fixed, anchored and calendar windows: units that the next one starts with
	until int64  // bans: when the ban ends; 0: not banned
	row   row    // bans that grow
	held  []hold // concurrency limits

	change *change // the units in use when the limit changed; nil: none that count

	base   *usage  // the usage before the first of events
	events []event // takings since base, if one of them has an end
}

// taking is an entry of the sliding log.
type taking struct {
	at, units int64
	value     uint64 // under a limit that counts values
	first     ticket // of the charge for which the value was new, if no other has had it since
}

// inUse returns how many whole units are in use at instant x ≥ u.at if nothing is taken until
// then. n units fit if inUse + n is at most the maximum. It never grows with x.
func (u usage) inUse(x int64) int64 {
	switch u.limit.Algorithm() {
	case limits.AlgorithmFixedWindow, limits.AlgorithmAnchoredWindow, limits.AlgorithmCalendar:
		return u.turned(x).curr
	case limits.AlgorithmBan, limits.AlgorithmGrowingBan:
		if u.isOver(x) {
			return 0
		}
		return u.curr
	case limits.AlgorithmConcurrent:
		return u.units()
	case limits.AlgorithmSlidingWindow:
		p := micros(u.limit)
		start := windowStart(x, u.limit)
		switch start {
		case u.at:
			return floor(ratio(u.prev, p, p-(x-start))) + u.curr
		case u.at + p:
			return floor(ratio(u.curr, p, p-(x-start)))
		}
		return 0
	case limits.AlgorithmSlidingLog, limits.AlgorithmDistinct:
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

// open reports whether the anchored window of u is open at instant x. A window without units is
// not.
func (u usage) open(x int64) bool { return u.curr > 0 && x-u.at < micros(u.limit) }

// turned returns u, a fixed or anchored window, in the window of instant x, with the rest of its
// debt. An anchored window that closed without a debt is empty.
func (u usage) turned(x int64) usage {
	if u.limit.Algorithm() == limits.AlgorithmCalendar {
		return u.turnedTo(windowStart(x, u.limit))
	}
	n := (x - u.at) / micros(u.limit)
	if n <= 0 {
		return u
	}
	next := usage{limit: u.limit, at: u.at + n*micros(u.limit)}
	if most := u.limit.Burst(); u.debt > 0 && n-1 <= u.debt/most {
		next.curr, next.debt = max(0, u.debt-(n-1)*most), max(0, u.debt-n*most)
	}
	if next.curr == 0 && u.limit.Algorithm() == limits.AlgorithmAnchoredWindow {
		next.at = x
	}
	return next
}

// turnedTo returns u in the period of the calendar that starts at an instant. A period owes only
// to the next one.
func (u usage) turnedTo(start int64) usage {
	if start <= u.at {
		return u
	}
	next := usage{limit: u.limit, at: start}
	if windowEnd(u.at, u.limit) == start {
		next.curr = min(u.debt, u.limit.Burst())
	}
	return next
}

// isOver reports whether the period of u, or its ban, has ended at instant x.
func (u usage) isOver(x int64) bool {
	if u.until != 0 {
		return x >= u.until
	}
	return x >= u.at+micros(u.limit)
}

// levelAt returns the level of a bucket at instant x.
func (u usage) levelAt(x int64) *big.Rat {
	drained := ratio(u.limit.Rate().Units, micros(u.limit), x-u.at)
	level := new(big.Rat).Sub(u.level, drained)
	if level.Sign() < 0 {
		return new(big.Rat)
	}
	return level
}

// freshAt returns the first instant at which u equals the usage of a key that was never charged.
func (u usage) freshAt() int64 {
	switch p := micros(u.limit); {
	case isBucket(u.limit):
		return u.at + u.drainTime(u.level)
	case len(u.takings) > 0:
		return u.takings[len(u.takings)-1].at + p
	case u.limit.Algorithm().Holds() && len(u.held) > 0:
		return math.MaxInt64
	case isGrowing(u.limit):
		return growsFreshAt(u)
	case u.limit.Algorithm() == limits.AlgorithmBan && u.until != 0:
		return u.until
	case u.limit.Algorithm() == limits.AlgorithmBan && u.curr > 0:
		return u.at + p
	case u.limit.Algorithm() == limits.AlgorithmCalendar && u.debt > 0:
		return windowEnd(windowEnd(u.at, u.limit), u.limit)
	case u.limit.Algorithm() == limits.AlgorithmCalendar && u.curr > 0:
		return windowEnd(u.at, u.limit)
	case (u.limit.Algorithm() == limits.AlgorithmFixedWindow ||
		u.limit.Algorithm() == limits.AlgorithmAnchoredWindow) && u.curr > 0:
		most := u.limit.Burst()
		// forgiven after 200 years
		return u.at + p*(1+min((u.debt+most-1)/most, 2*36_525*day.Microseconds()/p))
	case u.limit.Algorithm() == limits.AlgorithmSlidingWindow && u.curr > 0:
		return u.at + 2*p
	case u.limit.Algorithm() == limits.AlgorithmSlidingWindow && u.prev > 0:
		return u.at + p
	}
	return u.at
}

// isFresh reports whether u equals fresh usage under every limit when the clock shows now.
func (u usage) isFresh(now int64) bool { return u.isUnused(now) && !u.hasChange(now) }

// isUnused reports whether u equals fresh usage under its own limit when the clock shows now.
func (u usage) isUnused(now int64) bool {
	return u.limit == limits.Limit{} || max(now, u.at) >= u.freshAt()
}

// plus returns u after n units were taken at instant x ≥ u.at.
func (u usage) plus(x, n int64) usage {
	after := usage{limit: u.limit, at: x}
	switch u.limit.Algorithm() {
	case limits.AlgorithmSlidingWindow:
		after.at = windowStart(x, u.limit)
		switch after.at {
		case u.at:
			after.curr, after.prev = u.curr, u.prev
		case u.at + micros(u.limit):
			after.prev = u.curr
		}
		after.curr += n
	case limits.AlgorithmFixedWindow, limits.AlgorithmAnchoredWindow, limits.AlgorithmCalendar:
		after = u.turned(x)
		if after.curr == 0 && u.limit.Algorithm() == limits.AlgorithmAnchoredWindow {
			after.at = x // opens
		}
		after.base, after.events, after.change = nil, nil, nil
		after.curr += n
	case limits.AlgorithmBan:
		if !u.isOver(x) && (u.curr > 0 || len(u.events) > 0) {
			after.at, after.curr, after.until = u.at, u.curr, u.until
		}
		after.curr += min(n, math.MaxInt64-after.curr)
		if after.until == 0 && after.curr >= u.limit.Burst() {
			after.until = x + u.limit.Lasting().Microseconds()
		}
	case limits.AlgorithmGrowingBan:
		after = grown(u, x)
		if after.curr == 0 {
			after.at = x
		}
		after.base, after.events, after.change = nil, nil, nil
		after.curr += min(n, math.MaxInt64-after.curr)
		if after.until == 0 && after.curr >= u.limit.Burst() {
			after = bannedAt(after, x)
		}
	case limits.AlgorithmConcurrent:
		after.held = append(slices.Clone(u.held), hold{units: n})
	case limits.AlgorithmSlidingLog:
		for _, t := range u.takings {
			if x < t.at+micros(u.limit) {
				after.takings = append(after.takings, t)
			}
		}
		after.takings = append(after.takings, taking{at: x, units: n})
	default:
		after.level = new(big.Rat).Add(u.levelAt(x), new(big.Rat).SetInt64(n))
	}
	return after
}

// wait returns the least d for which n units, at most the maximum, fit at x+d if nothing is
// taken until then. They do not fit at x.
func (u usage) wait(x, n int64) int64 {
	if isBucket(u.limit) {
		tooMuch := new(big.Rat).Add(u.levelAt(x), new(big.Rat).SetInt64(n-u.limit.Burst()))
		return u.drainTime(tooMuch)
	}
	denied, allowed := int64(0), u.freshAt()-x
	for allowed-denied > 1 {
		middle := denied + (allowed-denied)/2
		if u.inUse(x+middle)+n <= u.limit.Burst() {
			allowed = middle
		} else {
			denied = middle
		}
	}
	return allowed
}

// drainTime returns the microseconds in which units drain from a bucket.
func (u usage) drainTime(units *big.Rat) int64 {
	perUnit := big.NewRat(micros(u.limit), u.limit.Rate().Units)
	return ceil(perUnit.Mul(perUnit, units))
}

// fresh returns the usage under limit of a key that was never charged.
func fresh(limit limits.Limit, now int64) usage {
	u := usage{limit: limit, at: now}
	switch {
	case isBucket(limit):
		u.level = new(big.Rat)
	case byClock(limit), limit.Algorithm() == limits.AlgorithmSlidingWindow:
		u.at = windowStart(now, limit)
	}
	return u
}
