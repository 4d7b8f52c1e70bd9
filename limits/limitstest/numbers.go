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
// the period since the Unix epoch.
func windowStart(x int64, l limits.Limit) int64 {
	return x - x%micros(l) // no instant of this suite is before the epoch
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
