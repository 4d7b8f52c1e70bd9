package limitstest

import (
	"math/big"

	"github.com/weir-go/weir/limits"
)

// micros returns the period of l in microseconds.
func micros(l limits.Limit) int64 { return l.Rate().Period.Microseconds() }

// windowStart returns the start of the window of l that contains x: a whole multiple of the period
// since the Unix epoch, except for a calendar limit.
func windowStart(x int64, l limits.Limit) int64 {
	if l.Period() != "" {
		return calendarStart(x, l)
	}
	return x - x%micros(l) // no instant of this suite is before the epoch
}

// windowEnd returns the end of the window of l that contains x.
func windowEnd(x int64, l limits.Limit) int64 {
	if l.Period() != "" {
		return calendarEnd(x, l)
	}
	return windowStart(x, l) + micros(l)
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
