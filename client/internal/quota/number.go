package quota

import (
	"math/bits"
	"net/http"
	"strings"
	"time"
)

// Longest is the longest wait that is believed. A longer one is a mistake, often an overflow, and
// would stop all requests to a server until the program restarts.
const Longest = 30 * 24 * time.Hour

// MaxCount is the largest number of requests or tokens. Larger ones count as this one.
const MaxCount = 1e15

const (
	maxWhole  = 9_000_000_000_000_000_000 // larger numbers read as this one: in ns, the year 2255
	maxNumber = 80                        // bytes of a number or a date: errors hold a copy
)

// number is a non-negative decimal number: 1.5 is {1, 500_000_000}.
type number struct{ whole, billionths int64 }

// readNumber reads a non-negative decimal number. It limits huge numbers to maxWhole and drops
// digits after the ninth decimal.
func readNumber(s string) (n number, ok bool) {
	if s = trimmed(s); len(s) > maxNumber {
		return number{}, false
	}
	i := 0
	for ; i < len(s) && isDigit(s[i]); i++ {
		if n.whole >= maxWhole/10 {
			n.whole = maxWhole
			continue
		}
		n.whole = 10*n.whole + int64(s[i]-'0')
	}
	if i == 0 || i == len(s) {
		return n, i > 0
	}
	if s[i] != '.' || i == len(s)-1 {
		return number{}, false
	}
	unit := int64(100_000_000)
	for i++; i < len(s); i++ {
		if !isDigit(s[i]) {
			return number{}, false
		}
		n.billionths += int64(s[i]-'0') * unit
		unit /= 10
	}
	return n, true
}

// trimmed is strings.TrimSpace, faster where there is nothing to trim.
func trimmed(s string) string {
	if s == "" || isPlain(s[0]) && isPlain(s[len(s)-1]) {
		return s
	}
	return strings.TrimSpace(s)
}

func isPlain(c byte) bool { return c > ' ' && c <= '~' }

// Digits reports whether s consists of digits, one at least.
func Digits(s string) bool {
	for i := range len(s) {
		if s[i]-'0' > 9 {
			return false
		}
	}
	return s != ""
}

// count reads a non-negative number of requests, rounded down.
func count(s string) (int64, bool) {
	n, ok := readQuoted(s)
	return min(n.whole, MaxCount), ok
}

// readQuoted is readNumber of a number that may be in quotes.
func readQuoted(s string) (n number, ok bool) {
	if n, ok = readNumber(s); ok {
		return n, true
	}
	return readNumber(unquoted(s))
}

// unquoted returns what is in quotes, or all of s, without white space.
func unquoted(s string) string {
	s = trimmed(s)
	if last := len(s) - 1; last > 1 && (s[0] == '"' || s[0] == '\'') && s[last] == s[0] {
		return trimmed(s[1:last])
	}
	return s
}

// times returns n units of time, rounded up to a nanosecond, and Longest at most.
func (n number) times(unit time.Duration) time.Duration {
	whole := time.Duration(min(n.whole, int64(Longest/unit)))
	hi, lo := bits.Mul64(uint64(n.billionths), uint64(unit)) // of a day, more than 64 bits
	part, rest := bits.Div64(hi, lo, 1e9)
	if rest > 0 {
		part++
	}
	return min(whole*unit+time.Duration(part), Longest)
}

// units say in which unit a number is an instant since the Unix epoch, largest first. The next
// larger unit would mean a year after 5000. A smaller number than all is seconds to go: as seconds
// to go, 1e9 would be 31 years. The program weir simulate reads logs in the same way.
//
//	90                   90 seconds to go
//	1795345200           2026-11-22, in seconds
//	1795345200000        the same in milliseconds
//	1795345200000000000  the same in nanoseconds
var units = [...]struct {
	from int64
	unit time.Duration
}{
	{1e17, time.Nanosecond},
	{1e14, time.Microsecond},
	{1e11, time.Millisecond},
	{1e9, time.Second},
}

// moment is the function moment for a number.
func (n number) moment(h http.Header) (wait time.Duration, date int64) {
	for _, u := range &units {
		if n.whole < u.from {
			continue
		}
		second := int64(time.Second / u.unit)
		part := number{n.whole % second, n.billionths}.times(u.unit)
		at := instant{second: n.whole / second, nanosecond: int64(part)}
		if part == 0 {
			at.coarse = 1
		}
		return until(at, h)
	}
	return n.times(time.Second), 0
}

// First returns the first value of a field, given by its canonical name.
func First(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
