package family

import "github.com/weir-go/weir/internal/ground/arith"

// rate is how fast units come or drain: one every p/q µs, in lowest terms.
type rate struct {
	p, q int64
	unit span // p/q µs
}

// newRate returns the rate of so many units in a period.
func newRate(units, period int64) rate {
	g := arith.GCD(units, period)
	p, q := period/g, units/g
	return rate{p, q, span{p / q, p % q}}
}

// span is an exact duration: us + frac/q microseconds, 0 ≤ frac < q, with the q of its rate. At
// 7 units a second q is 7, and one unit drains in span{142857, 1}: 142,857 1/7 µs.
type span struct{ us, frac int64 }

// drain returns the time in which n units drain, 0 ≤ n ≤ 2·Max. For more units the result is
// wrong and unused: they never fit.
func (r *rate) drain(n int64) span {
	if r.unit.frac == 0 {
		return span{n * r.unit.us, 0}
	}
	frac := n * r.unit.frac // at most 2·10⁹·10⁹, below 2⁶³
	return span{n*r.unit.us + frac/r.q, frac % r.q}
}

// unitsDrained returns how many whole units drain in d.
func (r *rate) unitsDrained(d span) int64 {
	if r.q == 1 {
		return d.us / r.p
	}
	return arith.MuldivPlus(d.us, r.q, d.frac, r.p)
}

// plus returns a + b.
func (r *rate) plus(a, b span) span {
	s := span{a.us + b.us, a.frac + b.frac}
	if s.frac >= r.q {
		s.us++
		s.frac -= r.q
	}
	return s
}

// minus returns a − b. Its us is negative if b > a.
func (r *rate) minus(a, b span) span {
	s := span{a.us - b.us, a.frac - b.frac}
	if s.frac < 0 {
		s.us--
		s.frac += r.q
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

func minSpan(a, b span) span {
	if a.us < b.us || a.us == b.us && a.frac < b.frac {
		return a
	}
	return b
}
