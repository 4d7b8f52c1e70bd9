package headers

import (
	"encoding/base64"
	"math/bits"
	"time"

	"github.com/weir-go/weir/limits"
)

// maxInteger is the largest Integer of a structured field (RFC 9651, section 3.3.1).
const maxInteger = 999_999_999_999_999

const microsPerSecond = 1_000_000

// isString reports whether s can be a String (RFC 9651, section 3.3.3).
func isString(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// appendString appends s, for which isString is true (RFC 9651, section 4.1.6).
func appendString(text []byte, s string) []byte {
	text = append(text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, s[i])
	}
	return append(text, '"')
}

// appendBytes appends b as a Byte Sequence (RFC 9651, section 4.1.8).
func appendBytes(text, b []byte) []byte {
	text = append(text, ':')
	text = base64.StdEncoding.AppendEncode(text, b)
	return append(text, ':')
}

// count returns n as an Integer: 0 if n is negative, at most maxInteger.
func count(n int64) int64 { return min(max(n, 0), maxInteger) }

// ceilSeconds returns ⌈d⌉ in seconds, or 0 if d is negative.
func ceilSeconds(d time.Duration) int64 {
	return ceilDiv(max(int64(d), 0), int64(time.Second))
}

// ceilDiv returns ⌈a/b⌉ for a ≥ 0 and b > 0.
func ceilDiv(a, b int64) int64 {
	if a%b > 0 {
		return a/b + 1
	}
	return a / b
}

// ceilMulDiv returns ⌈a·b/d⌉ for a, b ≥ 0 and d > 0, at most maxInteger.
func ceilMulDiv(a, b, d int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(d) {
		return maxInteger
	}
	quotient, rest := bits.Div64(hi, lo, uint64(d))
	if quotient >= maxInteger {
		return maxInteger
	}
	if rest > 0 {
		quotient++
	}
	return int64(quotient)
}

// plus returns d + e for d, e ≥ 0, or the largest duration below Never if that is less.
func plus(d, e time.Duration) time.Duration {
	return min(d, limits.Never-1-e) + e
}
