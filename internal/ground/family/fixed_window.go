package family

import "github.com/weir-go/weir/internal/ground/calendar"

// fixedWindow is the fixed window. Of the window before it remembers only a debt.
type fixedWindow struct{ Numbers }

func newFixedWindow(l Numbers) Compiled { return &fixedWindow{l} }

// Replied reads the debt behind a number that is 0.
func (*fixedWindow) Replied(numbers []int64) (Used, calendar.Period) {
	return Used{At: numbers[0], A: numbers[1], B: numbers[3]}, calendar.Period{}
}

func (l *fixedWindow) Decide(s Used, n, now int64, _ uint64, _ Entries) (Used, Told, bool) {
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
	wait := s.At + l.Period*l.windowsUntilFits(s.B, ask) - now
	return s, Told{s.A, max(0, l.FreshAt(s)-now), wait}, fits
}

func (l *fixedWindow) Charge(s Used, n, inUse, _ int64) (Used, int64) {
	return l.chargeWindow(s, n, inUse)
}

// Refund takes units out of the window of the taking, if that has not ended.
func (l *fixedWindow) Refund(s Used, r Refund, _ Entries) Used {
	if r.At < s.At || r.At >= s.At+l.Period {
		return s
	}
	return l.returnToWindow(s, r.Taken-r.Final)
}

func (l *fixedWindow) FreshAt(s Used) int64 {
	if s.A == 0 && s.B == 0 {
		return s.At
	}
	return s.At + l.Period*l.windowsUntilFresh(s.B)
}
