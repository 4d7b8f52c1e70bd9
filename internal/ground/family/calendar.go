package family

import "github.com/weir-go/weir/internal/ground/calendar"

// calendarWindow is the calendar limit, which counts in periods of a calendar. Only the next period
// owes units; what exceeds its maximum is forgiven.
type calendarWindow struct {
	Numbers
	periods *calendar.Calendar
}

func newCalendar(l Numbers) Compiled {
	periods, err := calendar.Of(string(l.Given.Period()))
	if err != nil {
		panic(err) // the limit is legal
	}
	l.scale = [2]int64{periods.ID}
	return &calendarWindow{l, periods}
}

// Scripted returns a hash of the text of the period, by which states of other periods differ.
func (l *calendarWindow) Scripted() []int64 {
	return []int64{l.Period, int64(calendar.Hash(string(l.Given.Period())) >> 12)}
}

// Replied reads the start of the period and the units in it, the length of the period, what it
// owes, and the length of the next period.
func (*calendarWindow) Replied(numbers []int64) (Used, calendar.Period) {
	s := Used{At: numbers[0], A: numbers[1], B: numbers[3]}
	end := s.At + numbers[2]
	return s, calendar.Period{Start: s.At, End: end, Next: end + numbers[4]}
}

// Decide begins a new period if that of s has ended.
func (l *calendarWindow) Decide(s Used, n, now int64, _ uint64, _ Entries) (Used, Told, bool) {
	if p := l.periods.At(now); s.At < p.Start {
		owed := int64(0)
		if s.B > 0 && l.periods.At(s.At).End == p.Start {
			owed = min(s.B, l.Max)
		}
		s.At, s.A, s.B = p.Start, owed, 0
	}
	return l.DecideIn(l.periods.At(s.At), s, n, now)
}

// Charge passes units above the maximum on to the next period.
func (l *calendarWindow) Charge(s Used, n, inUse, _ int64) (Used, int64) {
	return l.chargeWindow(s, n, inUse)
}

// Refund takes units out of the period of the taking, if that has not ended.
func (l *calendarWindow) Refund(s Used, r Refund, _ Entries) Used {
	if r.At < s.At || r.At >= l.periods.At(s.At).End {
		return s
	}
	return l.returnToWindow(s, r.Taken-r.Final)
}

func (l *calendarWindow) FreshAt(s Used) int64 {
	if s.A == 0 && s.B == 0 {
		return s.At
	}
	return freshIn(l.periods.At(s.At), s)
}
