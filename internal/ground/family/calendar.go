package family

import "github.com/weir-go/weir/internal/ground/calendar"

// calendarWindow is the calendar limit, which counts in periods of a calendar. Its state is the start
// of the period, the units in it, and in B those that the next period owes. What is more than that
// one holds is forgiven.
type calendarWindow struct {
	Numbers
	periods *calendar.Calendar
}

func newCalendar(l Numbers) Compiled {
	periods, err := calendar.Of(string(l.Given.Period()))
	if err != nil {
		panic(err) // the limit is legal
	}
	l.form = [2]int64{periods.ID}
	return &calendarWindow{l, periods}
}

func (l *calendarWindow) Decide(s Used, n, now int64, _ Entries) (Used, Told, bool) {
	if p := l.periods.At(now); s.At < p.Start {
		owed := int64(0)
		if s.B > 0 && l.periods.At(s.At).End == p.Start {
			owed = min(s.B, l.Max)
		}
		s.At, s.A, s.B = p.Start, owed, 0
	}
	return l.DecideIn(l.periods.At(s.At), s, n, now)
}

// DecideIn decides n units of a state of a calendar limit at an instant of its period p, and adds them if
// they fit.
func (l *Numbers) DecideIn(p calendar.Period, s Used, n, now int64) (Used, Told, bool) {
	fits := n == 0 || n <= l.Max-s.A
	ask := int64(1)
	if fits {
		s.A += n
	} else {
		ask = n
	}
	end := p.End // at which the units fit, at most the maximum
	if s.B+ask > l.Max {
		end = p.Next
	}
	return s, Told{s.A, max(0, freshIn(p, s)-now), end - now}, fits
}

// Charge notes what the period passes on to the next.
func (l *calendarWindow) Charge(s Used, n, inUse, _ int64) (Used, int64) {
	return l.chargeWindow(s, n, inUse)
}

// Refund returns units to the period of the taking, if that still counts.
func (l *calendarWindow) Refund(s Used, of Refund, _ Entries) Used {
	if of.At < s.At || of.At >= l.periods.At(s.At).End {
		return s
	}
	return l.returnToWindow(s, of.Taken-of.Final)
}

func (l *calendarWindow) FreshAt(s Used) int64 {
	if s.A == 0 && s.B == 0 {
		return s.At
	}
	return freshIn(l.periods.At(s.At), s)
}

// freshIn is FreshAt of a state in its period.
func freshIn(p calendar.Period, s Used) int64 {
	switch {
	case s.B > 0:
		return p.Next
	case s.A > 0:
		return p.End
	}
	return s.At
}
