package family

import (
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
	"github.com/weir-go/weir/internal/ground/calendar"
)

// window is how many units fit into a window of a period. Windows start at whole multiples of the
// period. A debt is the units of a window above its maximum. The windows after it start with the
// debt, each with at most its maximum. An example, with a maximum that was lowered to 10:
//
//	window 0   25 units: a debt of 15
//	window 1   starts with 15: none fits, and 5 are above its maximum
//	window 2   starts with 5: 5 fit
//	window 3   starts with 0
type window struct {
	Max    int64 // the most units that fit at one instant
	Period int64
}

// windowStart returns the start of the window that contains an instant.
func (w *window) windowStart(at int64) int64 { return at - at%w.Period }

// owable returns how many of n units may be charged to a key with inUse units in use: it then has
// at most twice the maximum.
func (w *window) owable(n, inUse int64) int64 { return min(n, max(0, 2*w.Max-inUse)) }

// owing returns the debt of a window that has a units, n of them just added, and had a debt before.
func (w *window) owing(a, debt, n int64) int64 { return max(0, min(a-w.Max, debt+n)) }

// chargeWindow adds units to a window, and those above its maximum to its debt.
func (w *window) chargeWindow(s Used, n, inUse int64) (Used, int64) {
	n = w.owable(n, inUse)
	s.A += n
	s.B = w.owing(s.A, s.B, n)
	return s, n
}

// returnToWindow takes units out of a window, and out of its debt.
func (w *window) returnToWindow(s Used, n int64) Used {
	s.A -= min(n, s.A)
	s.B = w.owing(s.A, s.B, 0)
	return s
}

// owed returns how much of a debt is left when the n-th window after it starts.
func (w *window) owed(debt, n int64) int64 {
	if debt == 0 || n-1 > debt/w.Max {
		return 0
	}
	return max(0, debt-(n-1)*w.Max)
}

// windowsUntilFits returns after how many windows n units, at most the maximum, fit on top of the
// rest of a debt. This window counts as one.
func (w *window) windowsUntilFits(debt, n int64) int64 {
	if debt+n <= w.Max {
		return 1
	}
	return 1 + min(arith.CeilDiv(debt+n-w.Max, w.Max), w.mostWindows())
}

// windowsUntilFresh returns after how many windows nothing is left of a debt. This window counts as
// one.
func (w *window) windowsUntilFresh(debt int64) int64 {
	if debt == 0 {
		return 1
	}
	return 1 + min(arith.CeilDiv(debt, w.Max), w.mostWindows())
}

// mostWindows returns the number of windows in 200 years, after which a debt is forgiven. Only a
// limit that was lowered far below a debt would take longer.
func (w *window) mostWindows() int64 { return 2 * bounds.BucketFill / w.Period }

// DecideIn is Decide for a state of a calendar limit whose period p has begun and not ended.
func (w *window) DecideIn(p calendar.Period, s Used, n, now int64) (Used, Told, bool) {
	fits := n == 0 || n <= w.Max-s.A
	ask := int64(1)
	if fits {
		s.A += n
	} else {
		ask = n
	}
	end := p.End         // the units fit when this period ends
	if s.B+ask > w.Max { // or, because of what the next one owes, when that ends
		end = p.Next
	}
	return s, Told{s.A, max(0, freshIn(p, s)-now), end - now}, fits
}

// freshIn is FreshAt for a state of the period p.
func freshIn(p calendar.Period, s Used) int64 {
	switch {
	case s.B > 0:
		return p.Next
	case s.A > 0:
		return p.End
	}
	return s.At
}
