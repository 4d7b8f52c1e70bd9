package family

import "github.com/weir-go/weir/internal/ground/calendar"

// anchoredWindow is the anchored window. A taking opens a window if none is open; the window ends a
// period later. If a window owes units, the next one starts at its end, holding them. Bit 0 of B
// says that each taking moves the start (see Inherit); the bits above are the units that the next
// window owes.
type anchoredWindow struct{ Numbers }

func newAnchoredWindow(l Numbers) Compiled { return &anchoredWindow{l} }

// Replied reads the debt behind a number that is 0. Takings do not move the start of a window.
func (*anchoredWindow) Replied(numbers []int64) (Used, calendar.Period) {
	return Used{At: numbers[0], A: numbers[1], B: numbers[3] << 1}, calendar.Period{}
}

// Decide empties s if its window has ended. A window without units is not open, so its start is
// now. If each taking moves the start, a taking moves it to now.
func (l *anchoredWindow) Decide(s Used, n, now int64, _ uint64, _ Entries) (Used, Told, bool) {
	if e := now - s.At; e >= l.Period || s.A == 0 { // an empty window is not open
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
		s = Used(Anchored(s).with(n, now))
		ask = 1
	}
	wait := s.At + l.Period*l.windowsUntilFits(s.B>>1, ask) - now
	return s, Told{s.A, max(0, l.FreshAt(s)-now), wait}, fits
}

func (l *anchoredWindow) Charge(s Used, n, inUse, now int64) (Used, int64) {
	if n = l.owable(n, inUse); n > 0 {
		s = Used(Anchored(s).with(n, now))
	}
	s.B = s.B&1 | l.owing(s.A, s.B>>1, n)<<1
	return s, n
}

// Inherit makes s a window that each taking moves.
//
// The window of a displaced key opened at an unknown instant. An example with a period of 10 s: the
// key is displaced, asks at 0 s, and asks again at 6 s. Had its window ended at 5 s, the second
// taking would have opened one that ends at 16 s. A window that starts at 0 s would end at 10 s,
// and admit too early. So each taking moves the start: the moved window ends at 16 s.
func (*anchoredWindow) Inherit(s Used, units int64) (Used, bool) {
	s.A, s.B = units, 1
	return s, true
}

// Refund takes units out of the window of the taking. A window without units has never opened. If
// the taking opened the window and cost nothing in the end, later takings would have opened it
// later; then nothing is returned.
func (l *anchoredWindow) Refund(s Used, r Refund, _ Entries) Used {
	n := r.Taken - r.Final
	opened := r.At == s.At && r.Final == 0 && s.A > n
	if r.At < s.At || r.At >= s.At+l.Period || Anchored(s).Moves() || n > s.A || opened {
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

// Anchored is the [Used] of an anchored window.
type Anchored Used

// Moves reports whether each taking moves the start of s.
func (s Anchored) Moves() bool { return s.B&1 != 0 }

// WithMoves returns s with a start that each taking moves.
func (s Anchored) WithMoves() Anchored {
	s.B |= 1
	return s
}

// with adds n units to the window of s.
func (s Anchored) with(n, now int64) Anchored {
	s.A += n
	if s.Moves() {
		s.At = now
	}
	return s
}
