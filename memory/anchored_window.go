package memory

import (
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/limits"
)

// anchoredWindow is the anchored window, which starts with a taking while none is open, and ends a
// period later. Its state is the start, the units in it, and in state.b whether each taking
// moves the start (see inherit), and above that bit how many units the next
// window starts with: it then starts at the end of this one.
type anchoredWindow struct{ sharedByFamilies }

func (*anchoredWindow) advance(l *compiledLimit, s *view, _ *shard) {
	l.anchoredAdvance(&s.state, s.asOf)
}

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
			s.at, s.b = s.at+n*l.period, s.b&1|uint32(l.owed(debt, n+1))<<1
			return
		}
	}
	s.at, s.a, s.b, s.serial = asOf, 0, 0, 0
}

func (*anchoredWindow) inUse(_ *compiledLimit, s *view) int64 { return s.a }

func (*anchoredWindow) take(l *compiledLimit, s *view, n int64) { l.anchoredTake(&s.state, s.asOf, n) }

// anchoredTake adds n units. A window without units
// starts at asOf already. A window that each taking moves starts there from now on.
func (l *compiledLimit) anchoredTake(s *state, asOf, n int64) {
	s.a += n
	if s.b&1 != 0 {
		s.at = asOf
	}
}

// charge notes what the window passes on to the next.
func (f *anchoredWindow) charge(l *compiledLimit, s *view, n int64) int64 {
	n = f.sharedByFamilies.charge(l, s, n)
	debt := max(0, min(s.a-l.max, int64(s.b>>1)+n))
	s.b = s.b&1 | uint32(debt)<<1
	return n
}

// inherit makes s a window that each taking moves.
//
// Nobody knows when the window of a key that is not found has started. If it has ended since, the
// key's next taking starts a new one, which ends later than one that starts now. So each taking
// moves the start: when the moved window has ended, so has every window that the key
// may have had.
func (*anchoredWindow) inherit(_ *compiledLimit, s *view, units int64) { s.a, s.b = units, 1 }

// refundLocked takes units out of the window of the taking. A window without units is as if it had
// never started. If the taking started the window and should have cost nothing, the
// window of the others would have started later, and nothing can be returned.
func (*anchoredWindow) refundLocked(_ *shard, l *scopedLimit, e *entry, of refund, _ int64) int64 {
	s, n := &e.state, of.taken-of.final
	if of.at < s.at || of.at >= s.at+l.period || s.b&1 != 0 || n > s.a || of.at == s.at && of.final == 0 && s.a > n {
		return 0
	}
	s.a -= n
	s.b = uint32(max(0, min(int64(s.b>>1), s.a-l.max))) << 1
	return n
}

func (*anchoredWindow) untilFits(l *compiledLimit, s *view, n int64, _ *shard) int64 {
	return s.at + l.period*l.windowsUntilFits(int64(s.b>>1), n) - s.asOf
}

func (f *anchoredWindow) windowEnd(l *compiledLimit, s *view) (at int64, ok bool) {
	return s.asOf + f.untilFits(l, s, 1, nil), true
}

func (*anchoredWindow) units(s *state) int64 { return s.a }

func (*anchoredWindow) freshAt(l *compiledLimit, s *state) int64 {
	if debt := int64(s.b >> 1); debt > 0 {
		return s.at + l.period*l.windowsUntilFresh(debt)
	}
	if s.a > 0 {
		return s.at + l.period
	}
	return s.at
}

func (f anchoredWindow) takeNowLocked(sh *shard, l *compiledLimit, s *state, n, now int64, d *limits.Decision) bool {
	w := *s
	l.anchoredAdvance(&w, now)
	allowed := n == 0 || w.a+n <= l.max
	d.Ticket = 0
	if allowed && n > 0 {
		l.anchoredTake(&w, now, n)
		sh.numberLocked(&w)
		d.Ticket = ticketOf(now, w.serial)
		*s = w
	}
	sh.mu.Unlock()

	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = max(0, l.max-w.a)
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(max(0, f.freshAt(l, &w)-now))
	d.EffectiveWindow = arith.Wait(w.at + l.period*l.windowsUntilFits(int64(w.b>>1), max(n, 1)) - now)
	d.Delay = 0
	if !allowed {
		d.RetryAfter = d.EffectiveWindow
	}
	return true
}
