package family

import "github.com/weir-go/weir/internal/ground/arith"

// slidingWindow is the sliding window. It counts the units of this window, and of the window before
// the part that the last period still overlaps.
//
// An example: 10 a minute, 8 units in the window before, 3 in this one, at 15 s into it.
//
//	the last minute overlaps 45 s of the window before: ⌊8·45/60⌋ = 6
//	6 + 3 = 9 units are in use, so 1 fits and 2 do not
//	2 fit when ⌊8·(60−x)/60⌋ ≤ 5, which is after x = 15 s: at 15 s and 1 µs
type slidingWindow struct{ Numbers }

func newSlidingWindow(l Numbers) Compiled { return &slidingWindow{l} }

func (l *slidingWindow) Decide(s Used, n, now int64, _ uint64, _ Entries) (Used, Told, bool) {
	if e := now - s.At; e >= l.Period {
		before := s.A
		if e >= 2*l.Period {
			before = 0
		}
		s.At, s.A, s.B = l.windowStart(now), 0, before
	}
	inUse := s.A
	if s.B != 0 { // ⌊before·(period−e)/period⌋
		inUse += arith.Muldiv(l.Period-(now-s.At), s.B, l.Period)
	}
	fits := n == 0 || n <= l.Max-inUse
	ask := int64(1)
	if fits {
		s.A += n
		inUse += n
	} else {
		ask = n
	}
	wait := int64(0)
	if !fits || inUse >= l.Max {
		wait = l.untilFits(s, ask, now)
	}
	return s, Told{inUse, max(0, l.FreshAt(s)-now), wait}, fits
}

// untilFits returns the least wait until n units fit that do not fit now. They fit in this window
// if only units of the window before are in the way. Otherwise they fit in the next one, where the
// units of this window fade.
func (l *slidingWindow) untilFits(s Used, n, now int64) int64 {
	e := now - s.At
	if room := l.Max - s.A - n; room >= 0 {
		return l.fadesTo(s.B, room) - e
	}
	return l.Period - e + l.fadesTo(s.A, max(0, l.Max-n))
}

// fadesTo returns when c units of the window before have faded to m ≥ 0: the least time x into a
// window with ⌊c(period−x)/period⌋ ≤ m.
func (l *slidingWindow) fadesTo(c, m int64) int64 {
	if c <= m {
		return 0
	}
	return l.Period - arith.MuldivCeil(m+1, l.Period, c) + 1
}

func (l *slidingWindow) Charge(s Used, n, inUse, _ int64) (Used, int64) {
	n = l.owable(n, inUse)
	s.A += n
	return s, n
}

// Refund takes units out of the window of the taking: this one, or the one before.
func (l *slidingWindow) Refund(s Used, r Refund, _ Entries) Used {
	n := r.Taken - r.Final
	switch {
	case r.At >= s.At && r.At < s.At+l.Period:
		s.A -= min(n, s.A)
	case r.At < s.At && r.At >= s.At-l.Period:
		s.B -= min(n, s.B)
	}
	return s
}

func (l *slidingWindow) FreshAt(s Used) int64 {
	switch {
	case s.A > 0:
		return s.At + 2*l.Period
	case s.B > 0:
		return s.At + l.Period
	}
	return s.At
}
