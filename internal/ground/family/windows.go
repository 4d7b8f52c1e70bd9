package family

import (
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
)

// This file is about windows that start at whole multiples of the period, and about debts. A debt
// is the units of a window above its maximum. The windows after it start with the debt, each with
// at most its maximum. An example, with a maximum that was lowered to 10:
//
//	window 0   25 units: a debt of 15
//	window 1   starts with 15: none fits, and 5 are above its maximum
//	window 2   starts with 5: 5 fit
//	window 3   starts with 0

// windowStart returns the start of the window that contains an instant.
func (l *Numbers) windowStart(at int64) int64 { return at - at%l.Period }

// owable returns how many of n units may be charged to a key with inUse units in use: it then has
// at most twice the maximum.
func (l *Numbers) owable(n, inUse int64) int64 { return min(n, max(0, 2*l.Max-inUse)) }

// owing returns the debt of a window that has a units, n of them just added, and had a debt before.
func (l *Numbers) owing(a, debt, n int64) int64 { return max(0, min(a-l.Max, debt+n)) }

// chargeWindow adds units to a window, and those above its maximum to its debt.
func (l *Numbers) chargeWindow(s Used, n, inUse int64) (Used, int64) {
	n = l.owable(n, inUse)
	s.A += n
	s.B = l.owing(s.A, s.B, n)
	return s, n
}

// returnToWindow takes units out of a window, and out of its debt.
func (l *Numbers) returnToWindow(s Used, n int64) Used {
	s.A -= min(n, s.A)
	s.B = l.owing(s.A, s.B, 0)
	return s
}

// owed returns how much of a debt is left when the n-th window after it starts.
func (l *Numbers) owed(debt, n int64) int64 {
	if debt == 0 || n-1 > debt/l.Max {
		return 0
	}
	return max(0, debt-(n-1)*l.Max)
}

// windowsUntilFits returns after how many windows n units, at most the maximum, fit on top of the
// rest of a debt. This window counts as one.
func (l *Numbers) windowsUntilFits(debt, n int64) int64 {
	if debt+n <= l.Max {
		return 1
	}
	return 1 + min(arith.CeilDiv(debt+n-l.Max, l.Max), l.mostWindows())
}

// windowsUntilFresh returns after how many windows nothing is left of a debt. This window counts as
// one.
func (l *Numbers) windowsUntilFresh(debt int64) int64 {
	if debt == 0 {
		return 1
	}
	return 1 + min(arith.CeilDiv(debt, l.Max), l.mostWindows())
}

// mostWindows returns the number of windows in 200 years, after which a debt is forgiven. Only a
// limit that was lowered far below a debt would take longer.
func (l *Numbers) mostWindows() int64 { return 2 * bounds.BucketFill / l.Period }
