package memory

import (
	"math"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// A ban counts units in periods that each start with a key's first unit. The charge that
// reaches the number bans the key. Its state is the start of the period, in state.a the
// instant at which the ban ends, or 0, and in state.b the units.
//
// A key that is not found may have used as much as keys that were displaced. It inherits so many
// units: −state.a of those in state.b. With its own they deny it until a period after its last unit.
// They never ban it: only as many units of its own do. A ban that is lifted has forgotten which
// were whose.

// banCompile allows a state no lead over the clock, as anchoredCompile does.
func (l *compiledLimit) banCompile() {
	l.max = l.given.Rate().Units
	l.banned = l.given.Lasting().Microseconds()
}

// banAdvance empties s if its period, or its ban, has ended by the instant asOf.
func (l *compiledLimit) banAdvance(s *state, asOf int64) {
	if asOf >= l.banFreshAt(s) {
		s.at, s.a, s.b, s.serial = asOf, 0, 0, 0
	}
}

// banFits reports whether any number of units fits, since a key is neither banned nor denied for
// what it has inherited.
func (l *compiledLimit) banFits(s *state) bool { return s.a == 0 || s.a < 0 && int64(s.b) < l.max }

// banTake adds n units at the instant asOf, and bans the key if they reach the number.
func (l *compiledLimit) banTake(s *state, asOf, n int64) {
	if s.b == 0 || s.a < 0 { // the period in which others used theirs may end sooner than one of its own
		s.at = asOf
	}
	units := arith.Sum(int64(s.b), n)
	if own := units + min(0, s.a); own >= l.max {
		s.a = asOf + l.banned
	}
	s.b = uint32(min(units, math.MaxUint32))
}

// banRefund returns n units of a charge at the instant at to its period, and lifts the ban
// that they made; it returns how many. Of a count that is as large as there are it returns
// nothing: nobody knows how much of it there would be.
func (l *compiledLimit) banRefund(s *state, n, at int64) int64 {
	if at < s.at || at >= s.at+l.period || s.b == math.MaxUint32 {
		return 0
	}
	n = min(n, int64(s.b)+min(0, s.a))
	s.b -= uint32(n)
	if int64(s.b) < l.max {
		s.a = min(0, s.a)
	}
	return n
}

// banRemaining returns how many units there are until the ban.
func (l *compiledLimit) banRemaining(s *state) int64 {
	if s.a > 0 {
		return 0
	}
	return max(0, l.max-int64(s.b))
}

func (l *compiledLimit) banFreshAt(s *state) int64 {
	switch {
	case s.a > 0:
		return s.a
	case s.b > 0:
		return s.at + l.period
	}
	return s.at
}

// banDescribe sets d, except its Delay, to the decision on a charge that left s behind.
func (l *compiledLimit) banDescribe(d *limits.Decision, s *view, allowed bool, now int64) {
	until := arith.Wait(l.untilFresh(s, now, nil))
	*d = limits.Decision{
		Allowed: allowed, Source: limits.SourcePrimary, Remaining: l.banRemaining(&s.state),
		ResetAfter: until, EffectiveWindow: until, At: now,
	}
	if allowed && s.b > 0 {
		d.Ticket = s.ticket()
	}
	switch {
	case !allowed:
		d.RetryAfter = until
	case s.b == 0:
		d.EffectiveWindow = arith.Wait(l.period)
	}
}
