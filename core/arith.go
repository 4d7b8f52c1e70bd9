package core

import "math/bits"

// ceilDiv returns ⌈a/b⌉ for a ≥ 0 and b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if q*b != a {
		q++
	}
	return q
}

// muldiv returns ⌊a·m/d⌋ for a, m ≥ 0 and d > 0, by way of 128 bits. The
// quotient must fit 63 bits.
func muldiv(a, m, d int64) int64 { return muldivPlus(a, m, 0, d) }

// muldivCeil returns ⌈a·m/d⌉ under the conditions of [muldiv].
func muldivCeil(a, m, d int64) int64 { return muldivPlus(a, m, d-1, d) }

// productExceeds reports whether a·b > c·d, all of them positive.
func productExceeds(a, b, c, d int64) bool {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	hi2, lo2 := bits.Mul64(uint64(c), uint64(d))
	return hi > hi2 || hi == hi2 && lo > lo2
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// muldivPlus returns ⌊(a·m + c)/d⌋ under the conditions of [muldiv], c ≥ 0.
func muldivPlus(a, m, c, d int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(m))
	lo, carry := bits.Add64(lo, uint64(c), 0)
	hi += carry
	if hi == 0 {
		return int64(lo / uint64(d))
	}
	q, _ := bits.Div64(hi, lo, uint64(d))
	return int64(q)
}
