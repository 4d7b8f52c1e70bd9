package headers

import (
	"math"
	"strconv"
	"strings"
)

// appendList appends the members of the list in lines, written by another limiter, as one line.
// begins reports whether a byte can begin a member of the wanted type. If a line begins otherwise,
// appendList appends nothing: joined with our members, the line would make the whole field
// malformed.
func appendList(text []byte, lines []string, begins func(byte) bool) []byte {
	start := len(text)
	for _, line := range lines {
		line = trim(line)
		if line == "" {
			continue
		}
		if !begins(line[0]) {
			return text[:start]
		}
		text = append(separate(text, start), line...)
	}
	return text
}

func isQuote(c byte) bool { return c == '"' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// separate appends the separator of list members, unless the list that begins at start
// is empty.
func separate(text []byte, start int) []byte {
	if len(text) == start {
		return text
	}
	return append(text, ", "...)
}

// standing orders decisions for fields with room for only one.
type standing struct {
	denied    bool
	remaining int64
	reset     int64 // microseconds, rounded like the field
}

// binds reports whether s replaces the values of an outer limiter, which allowed the request. A
// denial binds first, then the lower remaining, then the longer reset, then the outer limiter.
// Values that cannot be parsed are replaced.
func (s standing) binds(remaining, reset string) bool {
	return s.bindsAs(remaining, reset, parseMicros)
}

// bindsAs is binds for a reset that parse reads.
func (s standing) bindsAs(remaining, reset string, parse func(string) (int64, bool)) bool {
	if s.denied || remaining == "" {
		return true
	}
	n, err := strconv.ParseInt(trim(remaining), 10, 64)
	if err != nil || s.remaining != n {
		return err != nil || s.remaining < n
	}
	r, ok := parse(trim(reset))
	return !ok || s.reset > r
}

// parseMicros parses seconds, with or without decimals, into microseconds.
func parseMicros(s string) (int64, bool) {
	whole, decimals, _ := strings.Cut(s, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < 0 || seconds >= math.MaxInt64/microsPerSecond {
		return 0, false
	}
	micros := int64(0)
	for i := range 6 {
		micros *= 10
		if i >= len(decimals) {
			continue
		}
		if !isDigit(decimals[i]) {
			return 0, false
		}
		micros += int64(decimals[i] - '0')
	}
	return seconds*microsPerSecond + micros, true
}

// first returns the first of lines, or "".
func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// present reports whether a line has text.
func present(lines []string) bool {
	for _, line := range lines {
		if trim(line) != "" {
			return true
		}
	}
	return false
}

// trim removes the white space that may surround a field value or a list member.
func trim(s string) string { return strings.Trim(s, " \t") }
