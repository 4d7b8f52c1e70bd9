package memory

import (
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// An anchored window starts with a taking while none is open, and ends a period
// later. Its state is the start, the units in it, and in state.b whether each taking
// moves the start (see anchoredInherit), and above that bit how many units the next
// window starts with: it then starts at the end of this one.

// anchoredAdvance empties s if its window has ended by the instant asOf. The next
// window starts with a taking.
func (l *compiledLimit) anchoredAdvance(s *state, asOf int64) {
	e := asOf - s.at
	if e < l.period && s.a > 0 { // an empty one has not opened
		return
	}
	if debt := int64(s.b >> 1); debt > 0 {
		n := e / l.period
		if s.a = l.owed(debt, n); s.a > 0 {
			s.at, s.b = s.at+n*l.period, uint32(l.owed(debt, n+1))<<1
			return
		}
	}
	s.at, s.a, s.b, s.serial = asOf, 0, 0, 0
}

// anchoredOwe notes in s, to which n units were just added at the end of a request, what
// it passes on to the next window.
func (l *compiledLimit) anchoredOwe(s *state, n int64) {
	debt := max(0, min(s.a-l.max, int64(s.b>>1)+n))
	s.b = s.b&1 | uint32(debt)<<1
}

// anchoredRefund returns n units of a taking at the instant at, which cost final units in
// the end, to its window and returns how many. A window without units is as if it had
// never started. If the taking started the window and should have cost nothing, the
// window of the others would have started later, and nothing can be returned.
func (l *compiledLimit) anchoredRefund(s *state, n, final, at int64) int64 {
	if at < s.at || at >= s.at+l.period || s.b&1 != 0 || n > s.a || at == s.at && final == 0 && s.a > n {
		return 0
	}
	s.a -= n
	s.b = uint32(max(0, min(int64(s.b>>1), s.a-l.max))) << 1
	return n
}

// anchoredTake adds n units, which fit at the instant asOf. A window without units
// starts at asOf already. A window that each taking moves starts there from now on.
func (l *compiledLimit) anchoredTake(s *state, asOf, n int64) {
	s.a += n
	if s.b&1 != 0 {
		s.at = asOf
	}
}

func (l *compiledLimit) anchoredFreshAt(s *state) int64 {
	if debt := int64(s.b >> 1); debt > 0 {
		return s.at + l.period*l.windowsUntilFresh(debt)
	}
	if s.a > 0 {
		return s.at + l.period
	}
	return s.at
}

// takeFromAnchoredWindowLocked is what takeFromBucketLocked is for buckets.
func (sh *shard) takeFromAnchoredWindowLocked(l *compiledLimit, s *state, n, now int64, d *limits.Decision) {
	w, asOf := *s, max(now, s.at)
	l.anchoredAdvance(&w, asOf)
	allowed := n == 0 || w.a+n <= l.max
	d.Ticket = 0
	if allowed && n > 0 {
		l.anchoredTake(&w, asOf, n)
		sh.numberLocked(&w)
		d.Ticket = ticketOf(asOf, w.serial)
		*s = w
	}
	sh.mu.Unlock()

	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = max(0, l.max-w.a)
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(max(0, l.anchoredFreshAt(&w)-now))
	d.EffectiveWindow = arith.Wait(w.at + l.period*l.windowsUntilFits(int64(w.b>>1), max(n, 1)) - now)
	d.Delay = 0
	d.At = now
	if !allowed {
		d.RetryAfter = d.EffectiveWindow
	}
}

// anchoredInherit makes s, which is fresh, a window with units that each taking moves.
//
// It is for a key that was not found. Nobody knows when the window of such a key
// started. If it has ended since, the key's
// next taking starts a new one, which ends later than one that starts now. So each taking
// moves the start: when the moved window has ended, so has every window that the key
// may have had.
func (l *compiledLimit) anchoredInherit(s *state, units int64) {
	s.a = units
	if units > 0 {
		s.b = 1
	}
}
