package family

import "github.com/weir-go/weir/internal/ground/arith"

// slidingWindow is the sliding window. It adds as much of the window before as the last period still
// overlaps.
type slidingWindow struct{ Numbers }

func newSlidingWindow(l Numbers) Compiled { return &slidingWindow{l} }

func (l *slidingWindow) Decide(s Used, n, now int64, _ Entries) (Used, Told, bool) {
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

// untilFits returns the least wait until n units fit that do not fit now. They fit in this window if
// only units of the window before are in the way. Otherwise they fit in the next one, where the
// units of this one fade.
func (l *slidingWindow) untilFits(s Used, n, now int64) int64 {
	e := now - s.At
	if room := l.Max - s.A - n; room >= 0 {
		return l.fadesTo(s.B, room) - e
	}
	return l.Period - e + l.fadesTo(s.A, max(0, l.Max-n))
}

// fadesTo returns the first time x into a window at which c units of the window before weigh at most
// m, 0 ≤ m: the least x with ⌊c(period−x)/period⌋ ≤ m.
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

// Refund returns units to the window of the taking: this one, or the one before.
func (l *slidingWindow) Refund(s Used, of Refund, _ Entries) Used {
	n := of.Taken - of.Final
	switch {
	case of.At >= s.At && of.At < s.At+l.Period:
		s.A -= min(n, s.A)
	case of.At < s.At && of.At >= s.At-l.Period:
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
