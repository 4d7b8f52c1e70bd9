package family

// anchoredWindow is the anchored window. It starts with a taking while none is open, and ends a
// period later. Its state is the start, the units in it, in B whether each taking moves the start
// (see Inherit), and above that bit how many units the next window starts with: that one then
// starts at the end of this one.
type anchoredWindow struct{ Numbers }

func newAnchoredWindow(l Numbers) Compiled { return &anchoredWindow{l} }

// Moves reports whether each taking moves the start of s, the state of an anchored window.
func (s Used) Moves() bool { return s.B&1 != 0 }

// WithMoves returns s, whose start each taking moves.
func (s Used) WithMoves() Used {
	s.B |= 1
	return s
}

// Decide empties s if its window has ended. The next window starts with a taking: one without units
// starts at now already. A window that each taking moves starts there from now on.
func (l *anchoredWindow) Decide(s Used, n, now int64, _ Entries) (Used, Told, bool) {
	if e := now - s.At; e >= l.Period || s.A == 0 { // an empty one has not opened
		debt, passed := s.B>>1, e/l.Period
		if left := l.owed(debt, passed); debt > 0 && left > 0 {
			s.At, s.A, s.B = s.At+passed*l.Period, left, s.B&1|l.owed(debt, passed+1)<<1
		} else {
			s = Used{At: now}
		}
	}
	fits := n == 0 || n <= l.Max-s.A
	ask := max(n, 1)
	if fits && n > 0 {
		s = s.inWindow(n, now)
		ask = 1
	}
	return s, Told{s.A, max(0, l.FreshAt(s)-now), s.At + l.Period*l.windowsUntilFits(s.B>>1, ask) - now}, fits
}

func (s Used) inWindow(n, now int64) Used {
	s.A += n
	if s.Moves() {
		s.At = now
	}
	return s
}

func (l *anchoredWindow) Charge(s Used, n, inUse, now int64) (Used, int64) {
	if n = l.owable(n, inUse); n > 0 {
		s = s.inWindow(n, now)
	}
	s.B = s.B&1 | l.owing(s.A, s.B>>1, n)<<1
	return s, n
}

// Inherit makes s a window that each taking moves.
//
// The window of a key that is not found has started at an unknown instant. If it has ended since, the
// key's next taking starts a new one, which ends later than one that starts now. So each taking
// moves the start: when the moved window has ended, so has every window that the key may have had.
func (*anchoredWindow) Inherit(s Used, units int64) (Used, bool) {
	s.A, s.B = units, 1
	return s, true
}

// Refund takes units out of the window of the taking. A window without units is as if it had
// never started. If the taking started the window and should have cost nothing, the
// window of the others would have started later, and nothing can be returned.
func (l *anchoredWindow) Refund(s Used, of Refund, _ Entries) Used {
	n := of.Taken - of.Final
	if of.At < s.At || of.At >= s.At+l.Period || s.Moves() || n > s.A || of.At == s.At && of.Final == 0 && s.A > n {
		return s
	}
	s.A -= n
	s.B = l.owing(s.A, s.B>>1, 0) << 1
	return s
}

func (l *anchoredWindow) FreshAt(s Used) int64 {
	if s.A == 0 && s.B>>1 == 0 {
		return s.At
	}
	return s.At + l.Period*l.windowsUntilFresh(s.B>>1)
}
