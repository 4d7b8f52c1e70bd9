package memory

import (
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// compiledLimit is a [limits.Limit] in the numbers that its arithmetic needs, computed once.
type compiledLimit struct {
	given     limits.Limit // what it is compiled from
	algorithm limits.Algorithm
	family    family
	max       int64 // the most units that fit at one instant
	period    int64 // microseconds
	banned    int64 // bans only: how long one lasts, microseconds

	// One unit comes with every p/q microseconds, in lowest terms.
	p, q int64
	unit span // p/q
	full span // buckets only: the time in which max units drain
}

// compileLimit compiles a legal limit.
func compileLimit(given limits.Limit) compiledLimit {
	l := compiledLimit{
		given:     given,
		algorithm: given.Algorithm(),
		family:    familyOf(given.Algorithm()),
		max:       given.Burst(),
		period:    given.Rate().Period.Microseconds(),
	}
	if l.family != familyConcurrent { // which has no rate
		g := arith.GCD(given.Rate().Units, l.period)
		l.p, l.q = l.period/g, given.Rate().Units/g
		l.unit = span{l.p / l.q, l.p % l.q}
	}
	l.compileFamily()
	return l
}

// span is an exact stretch of time: us + frac/q microseconds, 0 ≤ frac < q. The q
// is that of the limit in hand.
type span struct{ us, frac int64 }

// drain returns the time in which n units drain from a bucket, 0 ≤ n ≤ max.
func (l *compiledLimit) drain(n int64) span {
	if l.unit.frac == 0 {
		return span{n * l.unit.us, 0}
	}
	frac := n * l.unit.frac // below 10⁹·10⁹
	return span{n*l.unit.us + frac/l.q, frac % l.q}
}

// plus returns a + b.
func (l *compiledLimit) plus(a, b span) span {
	s := span{a.us + b.us, a.frac + b.frac}
	if s.frac >= l.q {
		s.us++
		s.frac -= l.q
	}
	return s
}

// minus returns a − b; its us is negative if b > a.
func (l *compiledLimit) minus(a, b span) span {
	s := span{a.us - b.us, a.frac - b.frac}
	if s.frac < 0 {
		s.us--
		s.frac += l.q
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
func (l *compiledLimit) spread(n int64) int64 { return l.drain(n).ceil() }
