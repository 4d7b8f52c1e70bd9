package family

import "github.com/weir-go/weir/internal/ground/arith"

// span is an exact duration: us + frac/q microseconds, 0 ≤ frac < q, with the q of its limit. At
// 7 units a second q is 7, and one unit drains in span{142857, 1}: 142,857 1/7 µs.
type span struct{ us, frac int64 }

// drain returns the time in which n units drain, 0 ≤ n ≤ 2·Max. For more units the result is
// wrong and unused: they never fit.
func (l *Numbers) drain(n int64) span {
	if l.unit.frac == 0 {
		return span{n * l.unit.us, 0}
	}
	frac := n * l.unit.frac // at most 2·10⁹·10⁹, below 2⁶³
	return span{n*l.unit.us + frac/l.q, frac % l.q}
}

// unitsDrained returns how many whole units drain in d.
func (l *Numbers) unitsDrained(d span) int64 {
	if l.q == 1 {
		return d.us / l.p
	}
	return arith.MuldivPlus(d.us, l.q, d.frac, l.p)
}

// plus returns a + b.
func (l *Numbers) plus(a, b span) span {
	s := span{a.us + b.us, a.frac + b.frac}
	if s.frac >= l.q {
		s.us++
		s.frac -= l.q
	}
	return s
}

// minus returns a − b. Its us is negative if b > a.
func (l *Numbers) minus(a, b span) span {
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

func minSpan(a, b span) span {
	if a.us < b.us || a.us == b.us && a.frac < b.frac {
		return a
	}
	return b
}
