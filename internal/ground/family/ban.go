package family

import (
	"math"

	"github.com/weir-go/weir/internal/ground/arith"
)

// ban is the ban. It counts units in periods that each start with a key's first unit. The charge
// that reaches the number bans the key. A is the instant at which the ban ends, or 0.
//
// A key that is not found inherits the units of displaced keys: −A of the units in B. Inherited
// and own units together deny the key until a period after its last unit. Inherited units never
// ban it. Only own units do: as many as the number, each less than a period after the one
// before, since the key's period began at an unknown instant. Lifting a ban forgets which units
// were inherited.
//
// An example. Ten units in a minute ban for an hour; a key inherits 9:
//
//	at 0 s    it takes 1: A = −9, B = 10. It is denied until 60 s, and not banned: 1 is its own
//	at 60 s   it is fresh
type ban struct {
	Numbers
	banFor int64 // µs
}

func newBan(l Numbers) Compiled {
	return &ban{l, l.Given.Lasting().Microseconds()}
}

// Scripted returns the period and how long a ban lasts.
func (l *ban) Scripted() []int64 { return []int64{l.Period, l.banFor} }

// Decide lets any number of units fit unless the key is banned, or has used the number with what
// it inherited.
func (l *ban) Decide(s Used, n, now int64, _ uint64, _ Entries) (Used, Told, bool) {
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
	if s.B == 0 { // the next unit begins a period
		wait = l.Period
	}
	return s, Told{inUse, until, wait}, fits
}

// add adds n units, and bans the key if its own units reach the number.
func (l *ban) add(s Used, n, now int64) Used {
	if s.B == 0 || s.A < 0 { // with inherited units each taking starts the period again
		s.At = now
	}
	units := arith.Sum(s.B, n)
	if own := units + min(0, s.A); own >= l.Max {
		s.A = now + l.banFor
	}
	s.B = min(units, math.MaxUint32)
	return s
}

// Charge charges nothing during a ban.
func (l *ban) Charge(s Used, n, inUse, now int64) (Used, int64) {
	if n = l.owable(n, inUse); n <= 0 || s.A > 0 {
		return s, 0
	}
	return l.add(s, n, now), n
}

// Inherit inherits one unit less than the number, at most: units that were counted under a higher
// number must not deny the first request of a new key.
func (l *ban) Inherit(s Used, units int64) (Used, bool) {
	units = min(units, l.Max-1)
	s.A, s.B = -units, units
	return s, true
}

// Bequeath keeps one unit less than the number, so that no key inherits a ban.
func (l *ban) Bequeath(s Used) (units, until int64, ok bool) {
	return min(s.B, l.Max-1), s.At + l.Period, true
}

// Refund takes units out of the period of the taking, and lifts the ban if too few are left. It
// returns nothing from a count at its maximum, 2³² − 1, which may have been more.
func (l *ban) Refund(s Used, r Refund, _ Entries) Used {
	if r.At < s.At || r.At >= s.At+l.Period || s.B == math.MaxUint32 {
		return s
	}
	s.B -= min(r.Taken-r.Final, s.B+min(0, s.A))
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
