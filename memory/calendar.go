package memory

import (
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/internal/calendar"
	"github.com/weir-go/weir/limits"
)

// calendarWindow is the calendar limit, which counts in periods of a calendar. Its state is the start of
// the period, the units in it, and in state.b those that the next period owes. What is more than
// that holds is forgiven.
type calendarWindow struct {
	sharedByFamilies
	periods *calendar.Calendar // of one limit
}

// compile gives l a family that has its calendar.
func (*calendarWindow) compile(l *compiledLimit) {
	periods, err := calendar.Of(string(l.given.Period()))
	if err != nil {
		panic(err) // the limit is legal
	}
	l.family, l.form = &calendarWindow{periods: periods}, [2]int64{periods.ID}
}

// fresh begins at the epoch in a period that began before it: no instant of a Memory is earlier.
func (f *calendarWindow) fresh(_ *compiledLimit, s *view) { s.at = max(0, f.periods.At(s.asOf).Start) }

func (f *calendarWindow) advance(l *compiledLimit, s *view, _ *shard) { f.turn(l, &s.state, s.asOf) }

// turn moves s to the period that contains the instant asOf.
func (f *calendarWindow) turn(l *compiledLimit, s *state, asOf int64) {
	p := f.periods.At(asOf)
	if s.at >= p.Start {
		return
	}
	owed := int64(0)
	if s.b > 0 && f.periods.At(s.at).End == p.Start {
		owed = min(int64(s.b), l.max)
	}
	s.at, s.a, s.b = p.Start, owed, 0
}

func (*calendarWindow) inUse(_ *compiledLimit, s *view) int64 { return s.a }

func (*calendarWindow) take(_ *compiledLimit, s *view, n int64) { s.a += n }

// charge notes what the period passes on to the next.
func (f *calendarWindow) charge(l *compiledLimit, s *view, n int64) int64 {
	n = f.sharedByFamilies.charge(l, s, n)
	s.b = uint32(max(0, min(s.a-l.max, int64(s.b)+n)))
	return n
}

// refundLocked returns n units to the period of the taking, if that still counts.
func (f *calendarWindow) refundLocked(_ *shard, l *scopedLimit, e *entry, of refund, _ int64) int64 {
	s := &e.state
	if of.at < s.at || of.at >= f.periods.At(s.at).End {
		return 0
	}
	n := min(of.taken-of.final, s.a)
	s.a -= n
	s.b = uint32(max(0, min(int64(s.b), s.a-l.max)))
	return n
}

func (f *calendarWindow) untilFits(l *compiledLimit, s *view, n int64, _ *shard) int64 {
	return f.fitsAt(l, &s.state, n) - s.asOf
}

// fitsAt returns the start of the first period, after that of s, in which n units fit, at most
// the maximum.
func (f *calendarWindow) fitsAt(l *compiledLimit, s *state, n int64) int64 {
	p := f.periods.At(s.at)
	if int64(s.b)+n > l.max {
		return p.Next
	}
	return p.End
}

func (f *calendarWindow) windowEnd(l *compiledLimit, s *view) (at int64, ok bool) {
	return f.fitsAt(l, &s.state, 1), true
}

func (*calendarWindow) units(s *state) int64 { return s.a + int64(s.b) }

func (f *calendarWindow) freshAt(_ *compiledLimit, s *state) int64 {
	switch {
	case s.b > 0:
		return f.periods.At(s.at).Next
	case s.a > 0:
		return f.periods.At(s.at).End
	}
	return s.at
}

func (f *calendarWindow) takeNowLocked(sh *shard, l *compiledLimit, s *state, n, now int64, d *limits.Decision) bool {
	w := *s
	f.turn(l, &w, now)
	allowed := n == 0 || w.a+n <= l.max
	d.Ticket = 0
	if allowed && n > 0 {
		d.Ticket = ticketOf(now, w.serial)
		w.a += n
		*s = w
	}
	sh.mu.Unlock()

	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = max(0, l.max-w.a)
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(max(0, f.freshAt(l, &w)-now))
	d.EffectiveWindow = arith.Wait(f.fitsAt(l, &w, 1) - now)
	d.Delay = 0
	if !allowed {
		d.RetryAfter = arith.Wait(f.fitsAt(l, &w, n) - now)
		d.EffectiveWindow = d.RetryAfter
	}
	return true
}
