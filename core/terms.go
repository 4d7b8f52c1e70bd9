package core

import "time"

// terms is a limit in the numbers that its arithmetic needs, computed once.
type terms struct {
	limit     Limit
	algorithm Algorithm
	bucket    bool
	window    bool  // fixed, sliding or anchored
	aligned   bool  // a window that starts at a whole multiple of the period
	max       int64 // the most units ever held
	period    int64 // microseconds
	hold      int64 // the longest step back of a clock that is held, microseconds
	patience  int64 // how far ahead a state may be without a second look at the clock

	// One unit comes with every p/q microseconds, in lowest terms, which is
	// whole + part/q.
	p, q        int64
	whole, part int64
	full        span // buckets only: what max units take to drain
}

// unknownAlgorithm is what a switch over algorithms panics with that one is missing
// in. [Limit.Validate] refuses algorithms that there are not.
const unknownAlgorithm = "core: an algorithm is missing in this switch"

// longestHeldStep is how far a clock may step back, in microseconds, and still be
// held at the last taking: a second, and for windows and logs their period. After
// a longer step a key is rebased.
const longestHeldStep = 1_000_000

// span is an exact stretch of time: us + frac/q microseconds, 0 ≤ frac < q,
// where q belongs to the limit in hand.
type span struct{ us, frac int64 }

func termsOf(l Limit) terms {
	t := terms{
		limit:     l,
		algorithm: l.algorithm,
		max:       l.burst,
		period:    l.rate.Period.Microseconds(),
	}
	t.hold = max(longestHeldStep, t.period)
	t.patience = t.hold
	switch t.algorithm {
	case AlgorithmTokenBucket, AlgorithmLeakyBucket, AlgorithmLeakyQueue:
		t.bucket, t.hold, t.patience = true, longestHeldStep, longestHeldStep
	case AlgorithmFixedWindow, AlgorithmSlidingWindow:
		t.window, t.aligned, t.patience = true, true, 0 // so that the At of a decision lies in the window that its units count in
	case AlgorithmAnchoredWindow:
		t.window, t.patience = true, 0 // as above
	case AlgorithmSlidingLog:
	default:
		panic(unknownAlgorithm)
	}
	g := gcd(l.rate.Units, t.period)
	t.p, t.q = t.period/g, l.rate.Units/g
	t.whole, t.part = t.p/t.q, t.p%t.q
	if t.bucket {
		t.full = t.drain(t.max)
	}
	return t
}

// drain returns how long n units take to drain from a bucket, 0 ≤ n ≤ max.
func (t *terms) drain(n int64) span {
	if t.part == 0 {
		return span{n * t.whole, 0}
	}
	frac := n * t.part // below 10⁹·10⁹
	return span{n*t.whole + frac/t.q, frac % t.q}
}

// plus returns a + b.
func (t *terms) plus(a, b span) span {
	s := span{a.us + b.us, a.frac + b.frac}
	if s.frac >= t.q {
		s.us++
		s.frac -= t.q
	}
	return s
}

// minus returns a − b; its us is negative if b > a.
func (t *terms) minus(a, b span) span {
	s := span{a.us - b.us, a.frac - b.frac}
	if s.frac < 0 {
		s.us--
		s.frac += t.q
	}
	return s
}

// ceil returns ⌈s⌉ in microseconds.
func (s span) ceil() int64 {
	if s.frac > 0 {
		return s.us + 1
	}
	return s.us
}

// spread returns ⌈n·p/q⌉: the time over which n units are to be spread.
func (t *terms) spread(n int64) int64 { return t.drain(n).ceil() }

// wait converts whole microseconds. No wait is longer than two bursts of 100 years
// and a step that is held, which a Duration holds.
func wait(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
