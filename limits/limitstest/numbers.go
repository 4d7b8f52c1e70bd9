package limitstest

import (
	"math/big"

	"github.com/weir-go/weir/limits"
)

func isBucket(l limits.Limit) bool {
	switch l.Algorithm() {
	case limits.AlgorithmTokenBucket, limits.AlgorithmLeakyBucket, limits.AlgorithmLeakyQueue:
		return true
	}
	return false
}

// micros returns the period of l in microseconds.
func micros(l limits.Limit) int64 { return l.Rate().Period.Microseconds() }

// windowStart returns the start of the window of l that contains x: a whole multiple of the period
// since the Unix epoch, except for a calendar limit.
func windowStart(x int64, l limits.Limit) int64 {
	if l.Algorithm() == limits.AlgorithmCalendar {
		return calendarStart(x, l)
	}
	return x - x%micros(l) // no instant of this suite is before the epoch
}

// windowEnd returns the end of the window of l that contains x.
func windowEnd(x int64, l limits.Limit) int64 {
	if l.Algorithm() == limits.AlgorithmCalendar {
		return calendarEnd(x, l)
	}
	return windowStart(x, l) + micros(l)
}

// byClock reports whether all keys of l have the same windows, and a taking counts in one window
// only.
func byClock(l limits.Limit) bool {
	return l.Algorithm() == limits.AlgorithmFixedWindow || l.Algorithm() == limits.AlgorithmCalendar
}

// hasWindows reports whether l counts in windows at whose end all units come back.
func hasWindows(l limits.Limit) bool {
	return byClock(l) || l.Algorithm() == limits.AlgorithmAnchoredWindow
}

// ratio returns a / b * c.
func ratio(a, b, c int64) *big.Rat {
	r := big.NewRat(a, b)
	return r.Mul(r, new(big.Rat).SetInt64(c))
}

func floor(r *big.Rat) int64 {
	// Euclidean, and Denom is positive: rounds down
	return new(big.Int).Div(r.Num(), r.Denom()).Int64()
}

func ceil(r *big.Rat) int64 {
	return -floor(new(big.Rat).Neg(r))
}
