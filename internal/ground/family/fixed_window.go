package family

// fixedWindow is the fixed window. It forgets the window before, except for a debt.
type fixedWindow struct{ Numbers }

func newFixedWindow(l Numbers) Compiled { return &fixedWindow{l} }

func (l *fixedWindow) Decide(s Used, n, now int64, _ Entries) (Used, Told, bool) {
	if e := now - s.At; e >= l.Period {
		s.A, s.B = l.owed(s.B, e/l.Period), l.owed(s.B, e/l.Period+1)
		s.At = l.windowStart(now)
	}
	fits := n == 0 || n <= l.Max-s.A
	ask := int64(1)
	if fits {
		s.A += n
	} else {
		ask = n
	}
	return s, Told{s.A, max(0, l.FreshAt(s)-now), s.At + l.Period*l.windowsUntilFits(s.B, ask) - now}, fits
}

func (l *fixedWindow) Charge(s Used, n, inUse, _ int64) (Used, int64) {
	return l.chargeWindow(s, n, inUse)
}

// Refund returns units to the window of the taking, if that still counts.
func (l *fixedWindow) Refund(s Used, of Refund, _ Entries) Used {
	if of.At < s.At || of.At >= s.At+l.Period {
		return s
	}
	return l.returnToWindow(s, of.Taken-of.Final)
}

func (l *fixedWindow) FreshAt(s Used) int64 {
	if s.A == 0 && s.B == 0 {
		return s.At
	}
	return s.At + l.Period*l.windowsUntilFresh(s.B)
}
