package memory

import "github.com/weir-go/weir/limits"

// This file has every switch over the families of algorithms. Each case calls the
// function of the same name in the family's file. They are switches, and not methods
// of an interface, so that states stay on the stack.

// unknownFamily is the panic of a switch that has no case for a family.
// [limits.Limit.Validate] refuses algorithms that do not exist.
const unknownFamily = "memory: a switch over the families of algorithms has no case for this one"

// neverStored is the panic of a switch on a state of a concurrency limit, whose units are
// not in the table.
const neverStored = "memory: a concurrency limit has no stored state"

// compileFamily computes the fields of l that depend on the family.
func (l *compiledLimit) compileFamily() {
	switch l.family {
	case familyBucket:
		l.bucketCompile()
	case familyBan:
		l.banCompile()
	case familyWindow, familyAnchoredWindow, familyLog, familyConcurrent:
	default:
		panic(unknownFamily)
	}
}

// advance sets s to the view of old, a state written under l, at the instant now. If
// the clock is behind old.at, time stands still at old.at: the caller rebases a state
// that is too far ahead.
func (l *compiledLimit) advance(s *view, old *state, now int64, nodes *logNodes) {
	s.state = *old
	s.asOf = max(now, old.at)
	s.former, s.summary, s.gone = nil, nil, 0
	switch l.family {
	case familyBucket:
		l.bucketAdvance(&s.state, s.asOf)
	case familyWindow:
		l.windowAdvance(&s.state, s.asOf)
	case familyAnchoredWindow:
		l.anchoredAdvance(&s.state, s.asOf)
	case familyLog:
		l.logAdvance(s, nodes)
	case familyBan:
		l.banAdvance(&s.state, s.asOf)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// fresh sets s to the view, at the instant now, of a key that has used nothing.
func (l *compiledLimit) fresh(s *view, now int64) {
	*s = view{state: state{at: now}, asOf: now}
	switch l.family {
	case familyWindow:
		s.at = l.windowStart(now)
	case familyBucket, familyAnchoredWindow, familyLog, familyBan, familyConcurrent:
	default:
		panic(unknownFamily)
	}
}

// carries reports whether a state that was written under from means the same under l.
func (l *compiledLimit) carries(from *compiledLimit) bool {
	if l.algorithm != from.algorithm {
		return false
	}
	switch l.family {
	case familyBucket:
		return l.p == from.p && l.q == from.q
	case familyWindow, familyAnchoredWindow, familyLog:
		return l.period == from.period
	case familyBan: // keeps period, units and end of the ban
		return true
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// fits reports whether n units, 0 ≤ n, fit now.
func (l *compiledLimit) fits(s *view, n int64) bool {
	if (n == 0 || n > l.max) && l.family != familyBan {
		return n == 0
	}
	switch l.family {
	case familyBucket:
		return l.bucketFits(&s.state, n)
	case familyWindow, familyAnchoredWindow, familyLog, familyConcurrent:
		return l.inUse(s)+n <= l.max
	case familyBan:
		return l.banFits(&s.state)
	default:
		panic(unknownFamily)
	}
}

// take adds n units, which fit, to s.
func (l *compiledLimit) take(s *view, n int64) {
	s.former, s.summary, s.gone = nil, nil, 0
	switch l.family {
	case familyBucket:
		l.bucketTake(s, n)
	case familyWindow:
		s.a += n
	case familyAnchoredWindow:
		l.anchoredTake(&s.state, s.asOf, n)
	case familyLog:
		s.log.taken += n
		s.at = s.asOf
	case familyConcurrent:
		s.a += n
	case familyBan:
		l.banTake(&s.state, s.asOf, n)
	default:
		panic(unknownFamily)
	}
}

// remaining returns the largest cost that fits now.
func (l *compiledLimit) remaining(s *view) int64 {
	switch l.family {
	case familyBucket:
		return l.bucketRemaining(&s.state)
	case familyWindow, familyAnchoredWindow, familyLog, familyConcurrent:
		return max(0, l.max-l.inUse(s))
	case familyBan:
		return l.banRemaining(&s.state)
	default:
		panic(unknownFamily)
	}
}

// inUse returns the units that a window or log counts now. A bucket counts time: see
// used.
func (l *compiledLimit) inUse(s *view) int64 {
	switch l.family {
	case familyBucket:
		panic("memory: a bucket counts no units")
	case familyWindow:
		return l.windowInUse(s)
	case familyAnchoredWindow, familyConcurrent:
		return s.a
	case familyBan:
		return int64(s.b)
	case familyLog:
		return s.log.sum + s.log.taken
	default:
		panic(unknownFamily)
	}
}

// untilFits returns the least wait, from s.asOf, until n units fit, for n from 1 to
// max that do not fit now. The state of s is one that was stored under l.
func (l *compiledLimit) untilFits(s *view, n int64, nodes *logNodes) int64 {
	switch l.family {
	case familyBucket:
		return l.bucketUntilFits(&s.state, n)
	case familyWindow:
		return l.windowUntilFits(&s.state, s.asOf, n)
	case familyAnchoredWindow:
		return s.at + l.period*l.windowsUntilFits(int64(s.b>>1), n) - s.asOf
	case familyLog:
		return l.logUntilFits(s, n, nodes)
	case familyBan:
		return l.banFreshAt(&s.state) - s.asOf
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// freshAt returns the instant at which s equals the state of a key that has used
// nothing.
func (l *compiledLimit) freshAt(s *state) int64 {
	switch l.family {
	case familyBucket:
		return s.at + span{s.a, int64(s.b)}.ceil()
	case familyWindow:
		return l.windowFreshAt(s)
	case familyAnchoredWindow:
		return l.anchoredFreshAt(s)
	case familyLog:
		return s.at + l.period
	case familyBan:
		return l.banFreshAt(s)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// windowEnd returns when the window of s ends, and whether all units come back then. Of a
// key that owes whole windows it is the end of the last of them.
func (l *compiledLimit) windowEnd(s *view) (at int64, all bool) {
	switch l.family {
	case familyWindow:
		if l.algorithm != limits.AlgorithmFixedWindow {
			return 0, false
		}
		return s.at + l.period*l.windowsUntilFits(int64(s.b), 1), true
	case familyAnchoredWindow:
		return s.at + l.period*l.windowsUntilFits(int64(s.b>>1), 1), true
	case familyBucket, familyLog, familyBan:
		return 0, false
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}

// counted returns the units in the state of a window or log, to compare states that
// are fresh at one instant. It returns 0 for a bucket: such buckets are equal.
func (l *compiledLimit) counted(s *state) int64 {
	switch l.family {
	case familyBucket:
		return 0
	case familyWindow:
		return s.a + int64(s.b)
	case familyAnchoredWindow:
		return s.a
	case familyLog:
		return s.logSum()
	case familyBan:
		return int64(s.b)
	case familyConcurrent:
		panic(neverStored)
	default:
		panic(unknownFamily)
	}
}
