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
	form      [2]int64 // of one algorithm, states mean the same under limits with equal forms
	max       int64    // the most units that fit at one instant
	period    int64    // microseconds

	held   bool  // units are held until they are released, and no state is stored: concurrent.go
	lists  bool  // a state may have a list of nodes: sliding_log.go
	queues bool  // each taking has a ticket of its own, since only the last is ever returned
	drains bool  // levels may be remembered: bucket_ring.go
	banned int64 // bans only: how long one lasts, microseconds; any number of units fits before

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
		family:    families[given.Algorithm()],
		max:       given.Burst(),
		period:    given.Rate().Period.Microseconds(),
	}
	if given.Rate().Units > 0 { // a concurrency limit has no rate
		g := arith.GCD(given.Rate().Units, l.period)
		l.p, l.q = l.period/g, given.Rate().Units/g
		l.unit = span{l.p / l.q, l.p % l.q}
	}
	l.family.compile(&l)
	return l
}

// bans reports whether what counts is for a ban, which is not what counts for a rate.
func (l *compiledLimit) bans() bool { return l.banned > 0 }

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
