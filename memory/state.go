package memory

import (
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// state is what a key has used. Its family gives it meaning:
//
//	                  at                       a                          b
//	bucket            instant of last taking   D, whole µs                D, fraction
//	window            start of the window      units in it                units in the one before; fixed: what the next owes
//	anchored window   start of the window      units in it                1 if each taking moves the start; above, what the next owes
//	log               instant of last taking   list of earlier takings    sum and last cost
//	calendar          start of the period      units in it                what the next owes
//	ban               start of the period      end of the ban, 0: none,   units in the period
//	                                           below: units inherited
//	concurrency limit (not stored)             units held
//
// D is the time until the bucket is empty. Instants are microseconds since the
// Unix epoch. A state without units is fresh, whatever else it says.
type state struct {
	at      int64
	a       int64
	b       uint32
	limitID uint16 // which scope and limit it was written under
	serial  uint16 // tells it from other states that the key has had; 0: not stored yet
}

// view is a state as of an instant. It is a value: nothing is written until units are
// taken.
type view struct {
	state
	asOf int64   // the instant
	log  logView // of a log

	// former is the limit that the state was written under, and old the state as it was
	// written. Both are set while a conversion to another limit is not written back.
	former *compiledLimit
	old    *state

	// gone is set while a state of another limit that carries over is not written back: the
	// instant at which it is fresh under the limit that it was written under, if that is
	// sooner. 0: it is not.
	gone int64

	// summary is set for a key that was not found: the view is the largest of the
	// floors of this shard, and only the floors know the waits. It is nil again once
	// units are taken.
	summary *shard
}

// advance sets s to the view of old, a state written under l, at the instant now.
func (l *compiledLimit) advance(s *view, old *state, now int64, sh *shard) {
	s.state, s.asOf = *old, now
	s.former, s.summary, s.gone = nil, nil, 0
	l.family.advance(l, s, sh)
}

// fresh sets s to the view, at the instant now, of a key that has used nothing.
func (l *compiledLimit) fresh(s *view, now int64) {
	*s = view{state: state{at: now}, asOf: now}
	l.family.fresh(l, s)
}

// carries reports whether a state that was written under from means the same under l.
func (l *compiledLimit) carries(from *compiledLimit) bool {
	return l.algorithm == from.algorithm && l.form == from.form
}

// fits reports whether n units, 0 ≤ n, fit now.
func (l *compiledLimit) fits(s *view, n int64) bool { return l.family.fits(l, s, n) }

// take adds n units to s.
func (l *compiledLimit) take(s *view, n int64) {
	s.former, s.summary, s.gone = nil, nil, 0
	l.family.take(l, s, n)
}

// inUse returns how many units count now, those above the maximum included.
func (l *compiledLimit) inUse(s *view) int64 { return l.family.inUse(l, s) }

// remaining returns the largest cost that fits now.
func (l *compiledLimit) remaining(s *view) int64 { return max(0, l.max-l.inUse(s)) }

// freshAt returns the instant at which s equals the state of a key that has used nothing.
func (l *compiledLimit) freshAt(s *state) int64 { return l.family.freshAt(l, s) }

// advanceFrom is advance for a state that was written under from. If the state carries
// over, its units stay in use even if they are more than l's maximum: a change of limit
// never lowers what is in use. Otherwise the units that are in use count as taken now.
// They count so at every instant until units are taken and written back. A state that is
// fresh under from is fresh under l: the store may have dropped it.
func (l *compiledLimit) advanceFrom(from *compiledLimit, s *view, old *state, now int64, sh *shard) {
	if l.carries(from) {
		gone := from.freshAt(old)
		if gone <= now {
			l.fresh(s, now)
			return
		}
		l.advance(s, old, now, sh)
		if gone < l.freshAt(&s.state) {
			s.gone = gone
		}
		return
	}
	from.advance(s, old, now, sh)
	if l.convert(s, from) {
		s.former, s.old = from, old
	}
}

// convert replaces s, a view under from, by a view under l with as many units in use,
// all taken now. It reports whether there are any. An anchored window that each taking
// moves stays one.
func (l *compiledLimit) convert(s *view, from *compiledLimit) bool {
	if l.bans() != from.bans() {
		l.fresh(s, s.asOf)
		return false
	}
	moves := s.b & 1
	used := min(from.inUse(s), from.max, l.max)
	l.fresh(s, s.asOf)
	if used == 0 {
		return false
	}
	l.take(s, used)
	if l.algorithm == limits.AlgorithmAnchoredWindow && from.algorithm == limits.AlgorithmAnchoredWindow {
		s.b = moves
	}
	return true
}

// waitFor returns the least wait until n units fit, for n from 1 to max that do not fit now.
func (l *compiledLimit) waitFor(s *view, n int64, sh *shard) int64 {
	switch {
	case s.summary != nil:
		return s.summary.floorWaitLocked(s.summary.limits.get(s.limitID), l.max-n, s.asOf)
	case s.former != nil:
		return l.formerUntilFits(s, n, sh)
	}
	return s.untilGone(l.family.untilFits(l, s, n, sh))
}

// untilGone returns the shorter of a wait and that until s is gone.
func (s *view) untilGone(wait int64) int64 {
	if s.gone != 0 {
		return min(wait, s.gone-s.asOf)
	}
	return wait
}

// formerUntilFits is untilFits for a conversion that is not written back: the wait
// until at most max − n of the units under the former limit are in use.
func (l *compiledLimit) formerUntilFits(s *view, n int64, sh *shard) int64 {
	from, was := s.former, &sh.scratch.other
	from.advance(was, s.old, s.asOf, sh)
	return from.family.untilFits(from, was, from.max-(l.max-n), sh)
}

// untilFresh returns the wait until s equals the state of a key that has used nothing.
func (l *compiledLimit) untilFresh(s *view, sh *shard) int64 {
	switch {
	case s.former != nil:
		return l.formerUntilFits(s, l.max, sh)
	case s.summary != nil:
		return s.summary.floorWaitLocked(s.summary.limits.get(s.limitID), 0, s.asOf)
	case l.lists && l.inUse(s) == 0:
		return 0
	}
	return s.untilGone(max(0, l.freshAt(&s.state)-s.asOf))
}

// describe sets d, except its Delay, to the decision on a charge of n units. s is what
// the charge left behind, whether it is allowed or not.
func (l *compiledLimit) describe(d *limits.Decision, s *view, n int64, allowed bool, sh *shard) {
	l.family.describe(l, d, s, n, allowed, sh)
}

// describeUnits is describe for a family that counts units.
func (l *compiledLimit) describeUnits(d *limits.Decision, s *view, n int64, allowed bool, sh *shard) {
	remaining := l.remaining(s)
	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = remaining
	d.RetryAfter = 0
	d.At = s.asOf
	d.Ticket = 0
	if allowed && n > 0 {
		d.Ticket = s.ticket()
	}
	d.ResetAfter = arith.Wait(l.untilFresh(s, sh))
	if !allowed {
		d.RetryAfter = limits.Never
		if n <= l.max {
			d.RetryAfter = arith.Wait(l.waitFor(s, n, sh))
		}
		d.EffectiveWindow = d.RetryAfter
		return
	}
	end, ok := l.family.windowEnd(l, s)
	switch {
	case ok:
		d.EffectiveWindow = arith.Wait(s.untilGone(end - s.asOf))
	case remaining == 0:
		d.EffectiveWindow = arith.Wait(l.waitFor(s, 1, sh))
	default:
		d.EffectiveWindow = arith.Wait(l.spread(remaining))
	}
}

// A ticket is the instant that units count from, and above that the serial of the state.
// The units of a state that was converted or reset since are not known any more:
// without the serial, their return would be taken out of what others have in use. A leaky
// queue has a new serial with each taking, since only the last is ever returned. After 1,024 states
// of a shard, a serial comes again: a return that is as late, to a key that was reset meanwhile, counts.
const (
	ticketBits  = 53 // for 1970 to 2255
	ticketMask  = 1<<ticketBits - 1
	serialsMask = 1<<(63-ticketBits) - 1
)

// ticket returns the ticket of units taken that left s behind.
func (s *view) ticket() int64 { return ticketOf(s.asOf, s.serial) }

func ticketOf(asOf int64, serial uint16) int64 {
	return asOf | int64(serial&serialsMask)<<ticketBits
}

// knows reports whether a ticket is of units taken from s.
func (s *state) knows(ticket int64) bool { return ticket>>ticketBits == int64(s.serial&serialsMask) }
