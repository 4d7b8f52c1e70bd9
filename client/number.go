package client

import (
	"net/http"
	"strings"
	"time"
)

// longest is the longest wait that is believed. Longer ones are mistakes, often
// of an overflow, and would shut a server out until the program is restarted.
const longest = 30 * 24 * time.Hour

// maxCount is the largest number of requests that is told from larger ones.
const maxCount = 1e15

// maxWhole is the largest whole number that is told from larger ones: as nanoseconds since 1970 it is
// in the year 2255.
const maxWhole = 9_000_000_000_000_000_000

// maxDigits is how many digits a number has that is below maxWhole in any case.
const maxDigits = 18

// count reads a non-negative number of requests, rounded down. Huge ones saturate.
func count(s string) (int64, bool) {
	n, ok := readNumber(s)
	return min(n.whole, maxCount), ok
}

// decimals reads digits without space around them. Huge numbers saturate.
func decimals(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	var n int64
	if len(s) <= maxDigits { // as all are that are no attack, and none can be too large
		for i := range len(s) {
			c := s[i] - '0'
			if c > 9 {
				return 0, false
			}
			n = n*10 + int64(c)
		}
		return n, true
	}
	for i := range len(s) {
		c := s[i] - '0'
		switch {
		case c > 9:
			return 0, false
		case n >= maxWhole/10:
			n = maxWhole
		default:
			n = n*10 + int64(c)
		}
	}
	return n, true
}

// number is a non-negative decimal number.
type number struct{ whole, billionths int64 }

// readNumber reads a non-negative decimal number. Billionths are rounded up.
func readNumber(s string) (n number, ok bool) {
	s = strings.TrimSpace(s)
	point := strings.IndexByte(s, '.')
	if point < 0 {
		n.whole, ok = decimals(s)
		return n, ok
	}
	fraction := s[point+1:]
	if n.whole, ok = decimals(s[:point]); !ok || fraction == "" {
		return number{}, false
	}
	for i := range len(fraction) {
		c := fraction[i] - '0'
		switch {
		case c > 9:
			return number{}, false
		case i < 9:
			n.billionths = n.billionths*10 + int64(c)
		case c > 0:
			n.billionths++
			return n, true
		}
	}
	for i := len(fraction); i < 9; i++ {
		n.billionths *= 10
	}
	return n, true
}

// seconds returns a time in seconds, longest at most.
func (n number) seconds() time.Duration {
	if n.whole >= int64(longest/time.Second) {
		return longest
	}
	return time.Duration(n.whole)*time.Second + time.Duration(n.billionths)
}

// first returns the first value of a field whose name is canonical.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
