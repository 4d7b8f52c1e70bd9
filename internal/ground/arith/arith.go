// Package arith is exact integer arithmetic whose products may take 128 bits.
package arith

import (
	"math"
	"math/bits"
	"time"
)

// Wait converts microseconds to a Duration. A longer time becomes the longest Duration of whole
// microseconds.
func Wait(us int64) time.Duration {
	const longest = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(us, longest)) * time.Microsecond
}

// CeilDiv returns ⌈a/b⌉ for a ≥ 0 and b > 0.
func CeilDiv(a, b int64) int64 {
	q := a / b
	if q*b != a {
		q++
	}
	return q
}

// Muldiv returns ⌊a·m/d⌋ for a, m ≥ 0 and d > 0. The product takes 128 bits. The quotient must fit
// 63 bits.
func Muldiv(a, m, d int64) int64 { return MuldivPlus(a, m, 0, d) }

// MuldivCeil returns ⌈a·m/d⌉ under the conditions of [Muldiv].
func MuldivCeil(a, m, d int64) int64 { return MuldivPlus(a, m, d-1, d) }

// ProductExceeds reports whether a·b > c·d, for positive a, b, c and d.
func ProductExceeds(a, b, c, d int64) bool {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	hi2, lo2 := bits.Mul64(uint64(c), uint64(d))
	return hi > hi2 || hi == hi2 && lo > lo2
}

// GCD returns the greatest common divisor of a and b.
func GCD(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// MuldivPlus returns ⌊(a·m + c)/d⌋ under the conditions of [Muldiv], c ≥ 0.
func MuldivPlus(a, m, c, d int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(m))
	lo, carry := bits.Add64(lo, uint64(c), 0)
	hi += carry
	if hi == 0 {
		return int64(lo / uint64(d))
	}
	q, _ := bits.Div64(hi, lo, uint64(d))
	return int64(q)
}

// Sum returns a + b, at most math.MaxInt64, for a, b ≥ 0.
func Sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
