package client

import (
	"net/http"
	"strings"
	"time"
)

// longest is the longest wait that is believed. Longer ones are mistakes, often
// of an overflow, and would shut a server out until the program is restarted.
const longest = 30 * 24 * time.Hour

// maxCount is the largest number that is told from larger ones.
const maxCount = 1e15

// maxDigits is how many digits a number has that is below maxCount in any case.
const maxDigits = 15

// count reads a non-negative whole number. Huge ones saturate.
func count(s string) (int64, bool) { return decimals(strings.TrimSpace(s)) }

// decimals is count without space around the number.
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
		if c > 9 {
			return 0, false
		}
		n = min(n*10+int64(c), maxCount)
	}
	return n, true
}

// number reads a non-negative decimal number as whole units and billionths, which are
// rounded up.
func number(s string) (whole, billionths int64, ok bool) {
	s = strings.TrimSpace(s)
	point := strings.IndexByte(s, '.')
	if point < 0 {
		whole, ok = decimals(s)
		return whole, 0, ok
	}
	fraction := s[point+1:]
	if whole, ok = decimals(s[:point]); !ok || fraction == "" {
		return 0, 0, false
	}
	for i := range len(fraction) {
		c := fraction[i] - '0'
		switch {
		case c > 9:
			return 0, 0, false
		case i < 9:
			billionths = billionths*10 + int64(c)
		case c > 0:
			return whole, billionths + 1, true
		}
	}
	for i := len(fraction); i < 9; i++ {
		billionths *= 10
	}
	return whole, billionths, true
}

// seconds returns a time in seconds, longest at most.
func seconds(whole, billionths int64) time.Duration {
	if whole >= int64(longest/time.Second) {
		return longest
	}
	return time.Duration(whole)*time.Second + time.Duration(billionths)
}

// delta reads seconds to go. Decimals are no grammar of Retry-After, but to ignore "1.5"
// would be to come too early.
func delta(s string) (time.Duration, bool) {
	whole, billionths, ok := number(s)
	return seconds(whole, billionths), ok
}

// resetAt reads X-RateLimit-Reset, of which three units are in use: milliseconds and
// seconds since the Unix epoch, and seconds to go. Their size tells them apart. The wait
// may be negative. The date is that of until, 0 for seconds to go.
func resetAt(s string, h http.Header) (wait time.Duration, date int64, ok bool) {
	whole, billionths, ok := number(s)
	switch {
	case !ok:
		return 0, 0, false
	case whole >= 1e12:
		wait, date = until(whole/1000, whole%1000*1e6, whole%1000 == 0, h)
	case whole >= 1e9:
		wait, date = until(whole, billionths, billionths == 0, h)
	default:
		wait = seconds(whole, billionths)
	}
	return wait, date, true
}

// retryAfter reads Retry-After: seconds, or one of the three forms of a date (RFC 9110,
// sections 10.2.3 and 5.6.7).
func retryAfter(h http.Header) (time.Duration, bool) {
	s := first(h, "Retry-After")
	if s == "" {
		return 0, false
	}
	if wait, ok := delta(s); ok {
		return wait, true
	}
	at, ok := parseDate(s)
	if !ok {
		return 0, false
	}
	wait, _ := until(at.Unix(), 0, true, h)
	return wait, true
}

// first returns the first value of a field whose name is canonical.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
