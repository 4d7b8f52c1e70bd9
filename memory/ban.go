package memory

import (
	"math"

	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// ban is the ban, which counts units in periods that each start with a key's first unit. The charge
// that reaches the number bans the key. Its state is the start of the period, in state.a the
// instant at which the ban ends, or 0, and in state.b the units.
//
// A key that is not found may have used as much as keys that were displaced. It inherits so many
// units: −state.a of those in state.b. With its own they deny it until a period after its last unit.
// They never ban it: only as many units of its own do, each less than a period after the one before,
// since nobody knows when its period began. A ban that is lifted has forgotten which were whose.
type ban struct{ sharedByFamilies }

// compile leaves l.form as it is: whatever the limits, a period, units and the end of a ban mean
// the same.
func (*ban) compile(l *compiledLimit) {
	l.max = l.given.Rate().Units
	l.banned = l.given.Lasting().Microseconds()
}

func (f *ban) advance(l *compiledLimit, s *view, _ *shard) {
	if s.asOf >= f.freshAt(l, &s.state) {
		s.at, s.a, s.b, s.serial = s.asOf, 0, 0, 0
	}
}

// inUse returns the units, at least the maximum of a key that is banned.
func (*ban) inUse(l *compiledLimit, s *view) int64 {
	if s.a > 0 {
		return max(int64(s.b), l.max)
	}
	return int64(s.b)
}

// fits reports that any number of units fits, but of a key that is banned, or denied for what it has
// inherited.
func (*ban) fits(l *compiledLimit, s *view, _ int64) bool {
	return s.a == 0 || s.a < 0 && int64(s.b) < l.max
}

// take bans the key if the units reach the number.
func (*ban) take(l *compiledLimit, s *view, n int64) {
	if s.b == 0 || s.a < 0 { // the period in which others used theirs may end sooner than one of its own
		s.at = s.asOf
	}
	units := arith.Sum(int64(s.b), n)
	if own := units + min(0, s.a); own >= l.max {
		s.a = s.asOf + l.banned
	}
	s.b = uint32(min(units, math.MaxUint32))
}

// charge ignores what is charged during a ban.
func (f *ban) charge(l *compiledLimit, s *view, n int64) int64 {
	if s.a > 0 {
		return 0
	}
	return f.sharedByFamilies.charge(l, s, n)
}

func (*ban) inherit(_ *compiledLimit, s *view, units int64) { s.a, s.b = -units, uint32(units) }

// refundLocked takes units out of the period of the taking, and lifts the ban
// that they made. Of a count that is as large as there are it returns
// nothing: nobody knows how much of it there would be.
func (*ban) refundLocked(_ *shard, l *scopedLimit, e *entry, of refund, _ int64) int64 {
	s := &e.state
	if of.at < s.at || of.at >= s.at+l.period || s.b == math.MaxUint32 {
		return 0
	}
	n := min(of.taken-of.final, int64(s.b)+min(0, s.a))
	s.b -= uint32(n)
	if int64(s.b) < l.max {
		s.a = min(0, s.a)
	}
	return n
}

func (f *ban) untilFits(l *compiledLimit, s *view, _ int64, _ *shard) int64 {
	return f.freshAt(l, &s.state) - s.asOf
}

func (*ban) units(s *state) int64 { return int64(s.b) }

func (*ban) freshAt(l *compiledLimit, s *state) int64 {
	switch {
	case s.a > 0:
		return s.a
	case s.b > 0:
		return s.at + l.period
	}
	return s.at
}

func (*ban) describe(l *compiledLimit, d *limits.Decision, s *view, _ int64, allowed bool, sh *shard) {
	until := arith.Wait(l.untilFresh(s, sh))
	*d = limits.Decision{
		Allowed: allowed, Source: limits.SourcePrimary, Remaining: l.remaining(s),
		ResetAfter: until, EffectiveWindow: until, At: s.asOf,
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
