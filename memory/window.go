package memory

import (
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/internal/bounds"
	"github.com/weir-go/weir/limits"
)

// window is fixed and sliding window. They count units in windows that start at whole multiples of
// the period. A fixed window forgets the window before; a sliding window adds as much
// of it as the last period still overlaps.
type window struct{ sharedByFamilies }

func (*window) fresh(l *compiledLimit, s *view) { s.at = l.windowStart(s.asOf) }

// windowStart returns the start of the window that contains an instant.
func (l *compiledLimit) windowStart(at int64) int64 { return at - at%l.period }

func (*window) advance(l *compiledLimit, s *view, _ *shard) { l.windowAdvance(&s.state, s.asOf) }

// windowAdvance moves s to the window that contains the instant asOf.
func (l *compiledLimit) windowAdvance(s *state, asOf int64) {
	e := asOf - s.at
	if e < l.period {
		return
	}
	switch {
	case l.algorithm == limits.AlgorithmFixedWindow:
		l.carryDebt(s, int64(s.b), e/l.period)
	case e < 2*l.period:
		s.a, s.b = 0, uint32(s.a)
	default:
		s.a, s.b = 0, 0
	}
	s.at = l.windowStart(asOf)
}

// carryDebt makes s the n-th fixed window after one that ended with a debt.
func (l *compiledLimit) carryDebt(s *state, debt, n int64) {
	s.a, s.b = l.owed(debt, n), uint32(l.owed(debt, n+1))
}

// owed returns what is left of a debt at the start of the n-th window after the one that
// made it: each takes as many units off it as its maximum.
func (l *compiledLimit) owed(debt, n int64) int64 {
	if debt == 0 || n-1 > debt/l.max {
		return 0
	}
	return max(0, debt-(n-1)*l.max)
}

func (*window) take(_ *compiledLimit, s *view, n int64) { s.a += n }

// charge notes what a fixed window passes on to the next. A sliding window does so by its weight.
func (f *window) charge(l *compiledLimit, s *view, n int64) int64 {
	n = f.sharedByFamilies.charge(l, s, n)
	if l.algorithm == limits.AlgorithmFixedWindow {
		s.b = uint32(max(0, min(s.a-l.max, int64(s.b)+n)))
	}
	return n
}

// refundLocked returns n units to the window that contains the instant of the taking, if that still
// counts.
func (*window) refundLocked(_ *shard, l *scopedLimit, e *entry, of refund, _ int64) int64 {
	s, n, at := &e.state, of.taken-of.final, of.at
	switch {
	case at >= s.at && at < s.at+l.period:
		n = min(n, s.a)
		s.a -= n
		if l.algorithm == limits.AlgorithmFixedWindow {
			s.b = uint32(max(0, min(int64(s.b), s.a-l.max)))
		}
	case l.algorithm == limits.AlgorithmSlidingWindow && at < s.at && at >= s.at-l.period:
		n = min(n, int64(s.b))
		s.b -= uint32(n)
	default:
		return 0
	}
	return n
}

func (*window) inUse(l *compiledLimit, s *view) int64 {
	if l.algorithm == limits.AlgorithmFixedWindow {
		return s.a
	}
	return l.weight(&s.state, s.asOf) + s.a
}

// weight returns what the units of the window before still count for at the instant
// asOf: ⌊prev·(p−e)/p⌋.
func (l *compiledLimit) weight(s *state, asOf int64) int64 {
	if s.b == 0 {
		return 0
	}
	return arith.Muldiv(l.period-(asOf-s.at), int64(s.b), l.period)
}

func (*window) untilFits(l *compiledLimit, s *view, n int64, _ *shard) int64 {
	return l.windowUntilFits(&s.state, s.asOf, n)
}

// windowUntilFits returns the least wait, from asOf, until n units fit that do not fit
// now. They fit in this window if only units of the window before are in the way.
// Otherwise they fit in the next one, where the units of this one fade.
func (l *compiledLimit) windowUntilFits(s *state, asOf, n int64) int64 {
	e := asOf - s.at
	if l.algorithm == limits.AlgorithmFixedWindow {
		return l.period*l.windowsUntilFits(int64(s.b), n) - e
	}
	if room := l.max - s.a - n; room >= 0 {
		return l.fadesTo(int64(s.b), room) - e
	}
	return l.period - e + l.fadesTo(s.a, l.max-n)
}

// windowsUntilFits returns the least number of windows after which n units, at most the
// maximum, fit on top of what is left of a debt.
func (l *compiledLimit) windowsUntilFits(debt, n int64) int64 {
	if debt+n <= l.max {
		return 1
	}
	return 1 + min(arith.CeilDiv(debt+n-l.max, l.max), l.mostWindows())
}

// windowsUntilFresh returns how many windows a window with a debt, and those that start
// with what is left of it, last.
func (l *compiledLimit) windowsUntilFresh(debt int64) int64 {
	return 1 + min(arith.CeilDiv(debt, l.max), l.mostWindows())
}

// mostWindows returns in how many windows a debt is forgiven: in those of 200 years. Only
// a limit that was lowered far below a debt takes longer.
func (l *compiledLimit) mostWindows() int64 { return 2 * bounds.BucketFill / l.period }

// fadesTo returns the first time x into a window at which c units of the window
// before weigh at most m, 0 ≤ m: the least x with ⌊c(p−x)/p⌋ ≤ m.
func (l *compiledLimit) fadesTo(c, m int64) int64 {
	if c <= m {
		return 0
	}
	return l.period - arith.MuldivCeil(m+1, l.period, c) + 1
}

func (*window) windowEnd(l *compiledLimit, s *view) (at int64, ok bool) {
	return s.at + l.period*l.windowsUntilFits(int64(s.b), 1), l.algorithm == limits.AlgorithmFixedWindow
}

func (*window) units(s *state) int64 { return s.a + int64(s.b) }

func (*window) freshAt(l *compiledLimit, s *state) int64 {
	switch {
	case s.b > 0 && l.algorithm == limits.AlgorithmFixedWindow:
		return s.at + l.period*l.windowsUntilFresh(int64(s.b))
	case s.a > 0:
		if l.algorithm == limits.AlgorithmFixedWindow {
			return s.at + l.period
		}
		return s.at + 2*l.period
	case s.b > 0:
		return s.at + l.period
	}
	return s.at
}

func (f window) takeNowLocked(sh *shard, l *compiledLimit, s *state, n, now int64, d *limits.Decision) bool {
	w := *s
	l.windowAdvance(&w, now)
	used := w.a
	if l.algorithm == limits.AlgorithmSlidingWindow {
		used += l.weight(&w, now)
	}
	allowed := n == 0 || used+n <= l.max
	d.Ticket = 0
	if allowed && n > 0 {
		d.Ticket = ticketOf(now, w.serial)
		w.a += n
		used += n
		s.at, s.a, s.b = w.at, w.a, w.b
	}
	sh.mu.Unlock()

	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = max(0, l.max-used)
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(max(0, f.freshAt(l, &w)-now))
	d.Delay = 0
	switch {
	case !allowed:
		d.RetryAfter = arith.Wait(l.windowUntilFits(&w, now, n))
		d.EffectiveWindow = d.RetryAfter
	case l.algorithm == limits.AlgorithmFixedWindow || d.Remaining == 0:
		d.EffectiveWindow = arith.Wait(l.windowUntilFits(&w, now, 1))
	default:
		d.EffectiveWindow = arith.Wait(l.spread(d.Remaining))
	}
	return true
}
