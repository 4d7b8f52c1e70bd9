package family

import (
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
)

// Windows that start at whole multiples of the period, and what windows owe. A debt is the units of a
// window above its maximum. Each window after it takes off as many as its maximum: 25 units in
// a window of 10 leave 10 for the next one and 5 for the one after that.

// windowStart returns the start of the window that contains an instant.
func (l *Numbers) windowStart(at int64) int64 { return at - at%l.Period }

// owable returns how many of n units a key may owe that has so many in use.
func (l *Numbers) owable(n, inUse int64) int64 { return min(n, max(0, 2*l.Max-inUse)) }

// owing returns what the next window owes after n units were added to one that has a in all, and owed
// debt before.
func (l *Numbers) owing(a, debt, n int64) int64 { return max(0, min(a-l.Max, debt+n)) }

// chargeWindow adds units to a window that passes what is above its maximum on to the next.
func (l *Numbers) chargeWindow(s Used, n, inUse int64) (Used, int64) {
	n = l.owable(n, inUse)
	s.A += n
	s.B = l.owing(s.A, s.B, n)
	return s, n
}

// returnToWindow is the opposite.
func (l *Numbers) returnToWindow(s Used, n int64) Used {
	s.A -= min(n, s.A)
	s.B = l.owing(s.A, s.B, 0)
	return s
}

// owed returns what is left of a debt at the start of the n-th window after the one that made it.
func (l *Numbers) owed(debt, n int64) int64 {
	if debt == 0 || n-1 > debt/l.Max {
		return 0
	}
	return max(0, debt-(n-1)*l.Max)
}

// windowsUntilFits returns the least number of windows after which n units, at most the
// maximum, fit on top of what is left of a debt.
func (l *Numbers) windowsUntilFits(debt, n int64) int64 {
	if debt+n <= l.Max {
		return 1
	}
	return 1 + min(arith.CeilDiv(debt+n-l.Max, l.Max), l.mostWindows())
}

// windowsUntilFresh returns how many windows a window with a debt, and those that start
// with what is left of it, last.
func (l *Numbers) windowsUntilFresh(debt int64) int64 {
	if debt == 0 {
		return 1
	}
	return 1 + min(arith.CeilDiv(debt, l.Max), l.mostWindows())
}

// mostWindows returns in how many windows a debt is forgiven: in those of 200 years. Only
// a limit that was lowered far below a debt takes longer.
func (l *Numbers) mostWindows() int64 { return 2 * bounds.BucketFill / l.Period }
