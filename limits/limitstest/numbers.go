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

// micros is the period of l in microseconds.
func micros(l limits.Limit) int64 { return l.Rate().Period.Microseconds() }

// windowStart is the start of the window of l that x is in: a whole multiple of
// the period since the Unix epoch, but for a calendar limit.
func windowStart(x int64, l limits.Limit) int64 {
	if l.Algorithm() == limits.AlgorithmCalendar {
		return calendarStart(x, l)
	}
	return x - x%micros(l) // no instant of this suite is before the epoch
}

// windowEnd is the end of the window of l that x is in.
func windowEnd(x int64, l limits.Limit) int64 {
	if l.Algorithm() == limits.AlgorithmCalendar {
		return calendarEnd(x, l)
	}
	return windowStart(x, l) + micros(l)
}

// byClock reports whether all keys of l have the same windows, and what is taken in one counts for none other.
func byClock(l limits.Limit) bool {
	return l.Algorithm() == limits.AlgorithmFixedWindow || l.Algorithm() == limits.AlgorithmCalendar
}

// hasWindows reports whether l counts in windows that give back all at their end.
func hasWindows(l limits.Limit) bool {
	return byClock(l) || l.Algorithm() == limits.AlgorithmAnchoredWindow
}

// ratio is a / b * c.
func ratio(a, b, c int64) *big.Rat {
	r := big.NewRat(a, b)
	return r.Mul(r, new(big.Rat).SetInt64(c))
}

func floor(r *big.Rat) int64 {
	return new(big.Int).Div(r.Num(), r.Denom()).Int64() // Euclidean, and Denom is positive: rounds down
}

func ceil(r *big.Rat) int64 {
	return -floor(new(big.Rat).Neg(r))
}
