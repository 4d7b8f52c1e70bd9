package core

// settleWindow moves s to the window that contains s.held.
func (t *terms) settleWindow(s *settled) {
	e := s.held - s.at
	if e < t.period {
		return
	}
	if e < 2*t.period && t.algorithm == AlgorithmSlidingWindow {
		s.b = uint32(s.a)
	} else {
		s.b = 0
	}
	s.a = 0
	s.at = s.held - s.held%t.period
}

// weight returns what the units of the window before still count for:
// ⌊prev·(p−e)/p⌋.
func (t *terms) weight(s *settled) int64 {
	if s.b == 0 {
		return 0
	}
	return muldiv(t.period-(s.held-s.at), int64(s.b), t.period)
}

// slidingUntilFits finds the first instant at which n units fit, in this
// window if the units of the one before are what is in the way, otherwise in
// the next, where those of this one fade.
func (t *terms) slidingUntilFits(s *settled, n int64) int64 {
	e := s.held - s.at
	if room := t.max - s.a - n; room >= 0 {
		return t.fadesTo(int64(s.b), room) - e
	}
	return t.period - e + t.fadesTo(s.a, t.max-n)
}

// fadesTo returns the first time x into a window at which c units of the
// window before weigh no more than m, 0 ≤ m: the least x with ⌊c(p−x)/p⌋ ≤ m.
func (t *terms) fadesTo(c, m int64) int64 {
	if c <= m {
		return 0
	}
	return t.period - muldivCeil(m+1, t.period, c) + 1
}
