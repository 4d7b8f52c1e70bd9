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

	// summary is set for a key that was not found: the view is the largest of the
	// floors of this shard, and only the floors know the waits. It is nil again once
	// units are taken.
	summary *shard
}

// advance sets s to the view of old, a state written under l, at the instant now.
func (l *compiledLimit) advance(s *view, old *state, now int64, sh *shard) {
	s.state, s.asOf = *old, now
	s.summary = nil
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
	s.summary = nil
	l.family.take(l, s, n)
}

// inUse returns how many units count now, those above the maximum included.
func (l *compiledLimit) inUse(s *view) int64 { return l.family.inUse(l, s) }

// remaining returns the largest cost that fits now.
func (l *compiledLimit) remaining(s *view) int64 { return max(0, l.max-l.inUse(s)) }

// freshAt returns the instant at which s equals the state of a key that has used nothing.
func (l *compiledLimit) freshAt(s *state) int64 { return l.family.freshAt(l, s) }

// waitFor returns the least wait until n units fit, for n from 1 to max that do not fit now.
func (l *compiledLimit) waitFor(s *view, n int64, sh *shard) int64 {
	if s.summary != nil {
		return s.summary.floorWaitLocked(s.summary.limits.get(s.limitID), l.max-n, s.asOf)
	}
	return l.family.untilFits(l, s, n, sh)
}

// untilFresh returns the wait until s equals the state of a key that has used nothing.
func (l *compiledLimit) untilFresh(s *view, sh *shard) int64 {
	switch {
	case s.summary != nil:
		return s.summary.floorWaitLocked(s.summary.limits.get(s.limitID), 0, s.asOf)
	case l.lists && l.inUse(s) == 0:
		return 0
	}
	return max(0, l.freshAt(&s.state)-s.asOf)
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
		d.EffectiveWindow = arith.Wait(end - s.asOf)
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
