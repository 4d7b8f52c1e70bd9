package tokens

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
)

// parseNumber reads a number that is not negative, as JSON and programs write it: 12, 12.0, 1.2e1.
// It rounds up, to at most math.MaxInt64. text is the beginning of a number of length bytes.
func parseNumber(text []byte, length int64) (n int64, ok bool) {
	if length > int64(len(text)) { // such long ones are digits, or they are none
		return math.MaxInt64, areDigits(text)
	}
	if len(text) > 0 && areDigits(text) {
		return whole(text)
	}
	mantissa, exponent := text, 0
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		var err error
		if exponent, err = strconv.Atoi(string(text[i+1:])); err != nil || len(text)-i > 5 {
			return 0, false
		}
		mantissa = text[:i]
	}
	whole, fraction, hasPoint := bytes.Cut(mantissa, []byte("."))
	if len(whole) == 0 || hasPoint && len(fraction) == 0 || !areDigits(whole) || !areDigits(fraction) {
		return 0, false
	}
	point := len(whole) + exponent // in the digits of both
	digits := append(append(make([]byte, 0, 48), whole...), fraction...)
	for i := range max(point, len(digits)) {
		switch {
		case i >= len(digits):
			if n == 0 || n == math.MaxInt64 {
				return n, true
			}
			n = tenfold(n, '0')
		case i < point:
			n = tenfold(n, digits[i])
		case digits[i] != '0':
			return n + min(1, math.MaxInt64-n), true
		}
	}
	return n, true
}

func areDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// whole reads a number that consists of digits, at most math.MaxInt64.
func whole(value []byte) (n int64, ok bool) {
	for _, c := range value {
		n = tenfold(n, c)
	}
	return n, areDigits(value)
}

// tenfold appends a digit to n, at most math.MaxInt64.
func tenfold(n int64, digit byte) int64 {
	if d := int64(digit - '0'); n <= (math.MaxInt64-d)/10 {
		return 10*n + d
	}
	return math.MaxInt64
}

// product returns a·b, at most math.MaxInt64, for a, b ≥ 0.
func product(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
