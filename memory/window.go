package memory

import (
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/internal/bounds"
	"github.com/weir-go/weir/limits"
)

// Fixed and sliding window count units in windows that start at whole multiples of
// the period. A fixed window forgets the window before; a sliding window adds as much
// of it as the last period still overlaps.

// windowStart returns the start of the window that contains an instant.
func (l *compiledLimit) windowStart(at int64) int64 { return at - at%l.period }

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

// windowOwe notes in s, to which n units were just added at the end of a request, what a
// fixed window passes on to the next. A sliding window does so by its weight.
func (l *compiledLimit) windowOwe(s *state, n int64) {
	if l.algorithm == limits.AlgorithmFixedWindow {
		s.b = uint32(max(0, min(s.a-l.max, int64(s.b)+n)))
	}
}

// windowRefund returns n units to the window that contains the instant at, if that still
// counts, and returns how many.
func (l *compiledLimit) windowRefund(s *state, n, at int64) int64 {
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

func (l *compiledLimit) windowInUse(s *view) int64 {
	switch {
	case l.algorithm == limits.AlgorithmFixedWindow:
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

func (l *compiledLimit) windowFreshAt(s *state) int64 {
	switch {
	case s.b > 0 && l.algorithm == limits.AlgorithmFixedWindow:
		return s.at + l.period*l.windowsUntilFresh(int64(s.b))
	case s.a > 0:
		return s.at + l.windowLasts()
	case s.b > 0:
		return s.at + l.period
	}
	return s.at
}

// windowLasts returns how long the units of a window count at most.
func (l *compiledLimit) windowLasts() int64 {
	if l.algorithm == limits.AlgorithmFixedWindow {
		return l.period
	}
	return 2 * l.period
}

// takeFromWindowLocked is what takeFromBucketLocked is for buckets.
func (sh *shard) takeFromWindowLocked(l *compiledLimit, s *state, n, now int64, d *limits.Decision) {
	w, asOf := *s, max(now, s.at)
	l.windowAdvance(&w, asOf)
	used := w.a
	if l.algorithm == limits.AlgorithmSlidingWindow {
		used += l.weight(&w, asOf)
	}
	allowed := n == 0 || used+n <= l.max
	d.Ticket = 0
	if allowed && n > 0 {
		d.Ticket = ticketOf(asOf, w.serial)
		w.a += n
		used += n
		*s = w
	}
	sh.mu.Unlock()

	d.Allowed = allowed
	d.Source, d.Transient = limits.SourcePrimary, false
	d.Remaining = max(0, l.max-used)
	d.RetryAfter = 0
	d.ResetAfter = arith.Wait(max(0, l.windowFreshAt(&w)-now))
	d.Delay = 0
	d.At = now
	switch {
	case !allowed:
		d.RetryAfter = arith.Wait(asOf - now + l.windowUntilFits(&w, asOf, n))
		d.EffectiveWindow = d.RetryAfter
	case l.algorithm == limits.AlgorithmFixedWindow || d.Remaining == 0:
		d.EffectiveWindow = arith.Wait(asOf - now + l.windowUntilFits(&w, asOf, 1))
	default:
		d.EffectiveWindow = arith.Wait(l.spread(d.Remaining))
	}
}
