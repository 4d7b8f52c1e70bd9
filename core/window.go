package core

// turnTo moves s, a window's state, to the window that contains the instant
// held.
func (t *terms) turnTo(held int64, s *state) {
	e := held - s.at
	if e < t.period {
		return
	}
	if e < 2*t.period && t.algorithm == AlgorithmSlidingWindow {
		s.b = uint32(s.a)
	} else {
		s.b = 0
	}
	s.a = 0
	if t.algorithm == AlgorithmAnchoredWindow {
		s.at = held // the next one starts with a taking
		return
	}
	s.at = held - held%t.period
}

// takeAnchored adds n units, which fit at the instant held, to s. A window that is
// empty starts at held already. So does, from now on, one whose key was not found
// but may have been displaced (see flatten).
func (t *terms) takeAnchored(s *state, held, n int64) {
	s.a += n
	if s.b != 0 {
		s.at = held
	}
}

// weight returns what the units of the window before still count for at the
// instant held: ⌊prev·(p−e)/p⌋.
func (t *terms) weight(held int64, s *state) int64 {
	if s.b == 0 {
		return 0
	}
	return muldiv(t.period-(held-s.at), int64(s.b), t.period)
}

// windowUntilFits returns the least wait, from held, until n units fit that do
// not fit now: in this window if only the units of the one before are in the
// way, otherwise in the next, where those of this one fade.
func (t *terms) windowUntilFits(held int64, s *state, n int64) int64 {
	e := held - s.at
	if t.algorithm != AlgorithmSlidingWindow {
		return t.period - e
	}
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
