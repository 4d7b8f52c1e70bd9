package family

import (
	"math"

	"github.com/weir-go/weir/internal/ground/arith"
)

// growingBan is the ban that grows. It counts units in periods and bans as a ban does. Bans are in a
// row if each begins less than the longest ban after the one before has ended. The n-th ban of a row
// lasts 2ⁿ⁻¹ times as long as the first, up to the longest.
//
//	At  start of the period
//	A   end of the last ban of the row, which may be over; 0: no row;
//	    below 0: −inherited units
//	B   lower bits: units in the period; upper bits: how many bans the row has
//
// The units of a period that led to a ban are over when the ban ends: then A is above At. Units of a
// later period are there while A is at most At.
//
// An example. Five units in ten minutes ban for an hour, and bans grow to 24 hours:
//
//	12:00  it takes 5: A = 13:00, B = 5 units, 1 ban
//	13:00  no units are in use. A and the ban stay until 13:00 on the next day
//	14:00  it takes 5: A = 16:00, B = 5 units, 2 bans
//
// Inherited units are those of a ban: see there.
type growingBan struct {
	Numbers
	first, longest int64 // µs
}

// A store has 32 bits for B: 26 for units, and 6 for the number of bans.
const (
	growingUnits = 26
	mostGrowing  = 1<<growingUnits - 1
	mostInRow    = 1<<(32-growingUnits) - 1
)

func newGrowingBan(l Numbers) Compiled {
	return &growingBan{l, l.Given.Lasting().Microseconds(), l.Given.Longest().Microseconds()}
}

// Scripted returns the period, how long the first ban lasts, and how long the longest.
func (l *growingBan) Scripted() []int64 { return []int64{l.Period, l.first, l.longest} }

// growing is the state of a growing ban.
type growing Used

func (s growing) units() int64     { return s.B & mostGrowing }
func (s growing) row() int64       { return s.B >> growingUnits }
func (s growing) inherited() int64 { return max(0, -s.A) }

// isLed reports whether the units of s led to a ban. They are over when it is.
func (s growing) isLed() bool { return s.A > s.At }

func (s growing) with(units, row int64) growing {
	s.B = min(units, mostGrowing) | min(row, mostInRow)<<growingUnits
	return s
}

// asOf returns s at the instant now, without units that are over, and without a row that is over.
func (l *growingBan) asOf(s growing, now int64) growing {
	if s.A > now {
		return s // banned
	}
	units, row := s.units(), s.row()
	if s.isLed() || now >= s.At+l.Period {
		units = 0
	}
	if s.A > 0 && now >= s.A+l.longest || s.A < 0 && units == 0 {
		s.A, row = 0, 0
	}
	if units == 0 {
		s.At, s.Serial = now, 0
	}
	return s.with(units, row)
}

// Decide lets any number of units fit unless the key is banned, or has used the number with what
// it inherited.
func (l *growingBan) Decide(used Used, n, now int64, _ uint64, _ Entries) (Used, Told, bool) {
	s := l.asOf(growing(used), now)
	fits := s.A <= now && (s.inherited() == 0 || s.units() < l.Max)
	if fits && n > 0 {
		s = l.add(s, n, now)
	}
	inUse, until := s.units(), int64(0)
	switch {
	case s.A > now:
		inUse, until = max(inUse, l.Max), s.A-now
	case inUse > 0:
		until = s.At + l.Period - now
	}
	wait := until
	if inUse == 0 { // the next unit begins a period
		wait = l.Period
	}
	return Used(s), Told{inUse, until, wait}, fits
}

// add adds n units to s, which is as of now, and bans the key if its own units reach the number.
func (l *growingBan) add(s growing, n, now int64) growing {
	units, row := arith.Sum(s.units(), n), s.row()
	if s.units() == 0 || s.A < 0 { // with inherited units each taking starts the period again
		s.At = now
	}
	if units-s.inherited() >= l.Max {
		row++
		s.A = now + l.lasts(row)
	}
	return s.with(units, row)
}

// lasts returns how long the n-th ban of a row lasts.
func (l *growingBan) lasts(n int64) int64 {
	lasts := l.first
	for ; n > 1 && lasts < l.longest; n-- {
		lasts *= 2
	}
	return min(lasts, l.longest)
}

// Charge charges nothing during a ban.
func (l *growingBan) Charge(used Used, n, inUse, now int64) (Used, int64) {
	if n = l.owable(n, inUse); n <= 0 || used.A > now {
		return used, 0
	}
	return Used(l.add(growing(used), n, now)), n
}

// Inherit is that of a ban.
func (l *growingBan) Inherit(s Used, units int64) (Used, bool) {
	units = min(units, l.Max-1)
	s.A, s.B = -units, units
	return s, true
}

// Bequeath is that of a ban. No key inherits a row.
func (l *growingBan) Bequeath(s Used) (units, until int64, ok bool) {
	return min(growing(s).units(), l.Max-1), s.At + l.Period, true
}

// Plain returns a ban without its row, which another ban would not go on with. A full count stays
// full.
func (l *growingBan) Plain(used Used, now int64) Used {
	s := l.asOf(growing(used), now)
	if s.B = s.units(); s.B == mostGrowing {
		s.B = math.MaxUint32
	}
	if s.A <= now {
		s.A = min(0, s.A)
	}
	return Used(s)
}

// Adopt makes a ban that has begun the first of a row. Of more units than it can count it keeps the
// own ones, and takes the others off those that are inherited.
func (l *growingBan) Adopt(s Used) Used {
	row, own := int64(0), s.B+min(0, s.A)
	s.B = min(s.B, mostGrowing)
	if s.A > 0 {
		row = 1
	} else {
		s.A = min(0, own-s.B)
	}
	return Used(growing(s).with(s.B, row))
}

// Refund takes units out of the period of the taking until that is over, and lifts the ban if too
// few are left. The ban then leaves the row. When the ban before it ended is not known any more, so
// that counts as having ended when the period began: no earlier than it did, so never too little.
// Nothing is returned from a full count, which may have been more.
func (l *growingBan) Refund(used Used, r Refund, _ Entries) Used {
	s := growing(used)
	units, row, over := s.units(), s.row(), s.At+l.Period
	if s.isLed() {
		over = s.A
	}
	if r.At < s.At || r.At >= s.At+l.Period || r.Now >= over || units == mostGrowing {
		return used
	}
	units -= min(r.Taken-r.Final, units-s.inherited())
	if s.isLed() && units < l.Max {
		row--
		if s.A = s.At; row == 0 {
			s.A = 0
		}
	}
	return Used(s.with(units, row))
}

// FreshAt returns when neither units nor a row are left.
func (l *growingBan) FreshAt(used Used) int64 {
	s := growing(used)
	at := s.At
	if s.units() > 0 && !s.isLed() {
		at += l.Period
	}
	if s.A > 0 {
		at = max(at, s.A+l.longest)
	}
	return at
}
