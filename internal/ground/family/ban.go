package family

import (
	"math"

	"github.com/weir-go/weir/internal/ground/arith"
)

// ban is the ban. It counts units in periods that each start with a key's first unit. The charge
// that reaches the number bans the key. Its state is the start of the period, in A the instant at
// which the ban ends, or 0, and in B the units.
//
// A key that is not found may have used as much as keys that were displaced. It inherits so many
// units: −A of those in B. With its own they deny it until a period after its last unit. They never
// ban it: only as many units of its own do, each less than a period after the one before, since its
// period began at an unknown instant. Lifting a ban forgets which units were inherited.
type ban struct {
	Numbers
	banFor int64 // µs
}

// Whatever the limits, a period, units and the end of a ban mean the same.
func newBan(l Numbers) Compiled {
	l.form = [2]int64{}
	l.Max = l.Given.Rate().Units
	return &ban{l, l.Given.Lasting().Microseconds()}
}

// Decide has any number of units fit, unless the key is banned or denied for what it has inherited.
func (l *ban) Decide(s Used, n, now int64, _ Entries) (Used, Told, bool) {
	if now >= l.FreshAt(s) {
		s = Used{At: now}
	}
	fits := s.A == 0 || s.A < 0 && s.B < l.Max
	if fits && n > 0 {
		s = l.add(s, n, now)
	}
	inUse, until := s.B, max(0, l.FreshAt(s)-now)
	if s.A > 0 {
		inUse = max(inUse, l.Max)
	}
	wait := until
	if s.B == 0 {
		wait = l.Period
	}
	return s, Told{inUse, until, wait}, fits
}

// add bans the key if the units reach the number.
func (l *ban) add(s Used, n, now int64) Used {
	if s.B == 0 || s.A < 0 { // the period in which others used theirs may end sooner than one of its own
		s.At = now
	}
	units := arith.Sum(s.B, n)
	if own := units + min(0, s.A); own >= l.Max {
		s.A = now + l.banFor
	}
	s.B = min(units, math.MaxUint32)
	return s
}

// Charge ignores what is charged during a ban.
func (l *ban) Charge(s Used, n, inUse, now int64) (Used, int64) {
	if n = l.owable(n, inUse); n <= 0 || s.A > 0 {
		return s, 0
	}
	return l.add(s, n, now), n
}

func (*ban) Inherit(s Used, units int64) (Used, bool) {
	s.A, s.B = -units, units
	return s, true
}

// Refund takes units out of the period of the taking, and lifts the ban that they made. Of a count
// that is as large as there are it returns none: how much of it there would be is not known.
func (l *ban) Refund(s Used, of Refund, _ Entries) Used {
	if of.At < s.At || of.At >= s.At+l.Period || s.B == math.MaxUint32 {
		return s
	}
	s.B -= min(of.Taken-of.Final, s.B+min(0, s.A))
	if s.B < l.Max {
		s.A = min(0, s.A)
	}
	return s
}

func (l *ban) FreshAt(s Used) int64 {
	switch {
	case s.A > 0:
		return s.A
	case s.B > 0:
		return s.At + l.Period
	}
	return s.At
}
