package client

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is the longest wait that is believed. Longer ones are mistakes, often of an overflow, and
// would shut a server out until the program is restarted.
const longest = 30 * 24 * time.Hour

const (
	maxCount  = 1e15                      // the largest number of requests that is told from larger ones
	maxWhole  = 9_000_000_000_000_000_000 // the same of whole numbers: as nanoseconds since 1970, the year 2255
	maxNumber = 80                        // bytes of a text that may be a number: errors of strconv hold a copy
)

// number is a non-negative decimal number.
type number struct{ whole, billionths int64 }

// readNumber reads a non-negative decimal number. Huge numbers saturate; digits behind the ninth decimal
// are dropped.
func readNumber(s string) (n number, ok bool) {
	s = strings.TrimSpace(s)
	if len(s) > maxNumber {
		return number{}, false
	}
	whole, fraction, decimal := strings.Cut(s, ".")
	if n.whole, ok = digitsOf(whole); ok && decimal {
		ok = digits(fraction)
		n.billionths, _ = digitsOf((fraction + "00000000")[:min(9, len(fraction)+8)])
	}
	return n, ok
}

// digitsOf reads digits alone, without a sign. It looks at them first: an error of strconv allocates.
func digitsOf(s string) (int64, bool) {
	if !digits(s) {
		return 0, false
	}
	n, _ := strconv.ParseUint(s, 10, 64) // the largest, if s is larger
	return int64(min(n, maxWhole)), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return s != ""
}

// count reads a non-negative number of requests, rounded down.
func count(s string) (int64, bool) {
	n, ok := readNumber(s)
	return min(n.whole, maxCount), ok
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
