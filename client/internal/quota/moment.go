package quota

import (
	"net/http"
	"strings"
	"time"
)

// moment reads when a wait or a limit ends. Every field may have every form: a number, see units;
// a duration such as 1m30s; a date. The result is the wait from the answer on, negative if the end
// is past. date is that of until, or 0 if s is no instant.
func moment(s string, h http.Header) (wait time.Duration, date int64, ok bool) {
	if n, ok := readNumber(s); ok {
		wait, date = n.moment(h)
		return wait, date, true
	}
	if s = strings.TrimSpace(s); s == "" || len(s) > maxNumber {
		return 0, 0, false
	}
	if wait, ok = duration(s); ok {
		return wait, 0, true
	}
	at, unit, ok := instantOf(s)
	if !ok {
		return 0, 0, false
	}
	wait, date = until(at, unit, h)
	return wait, date, true
}

// until returns the wait from the answer to an instant. Both are by the clock of the server that
// wrote Date; without Date, by our own clock. The server may have rounded the instant down to a
// multiple of unit, so unit is added. date is Date in Unix time, or 0 without one.
func until(at time.Time, unit time.Duration, h http.Header) (wait time.Duration, date int64) {
	from, ok := parseDate(First(h, "Date"))
	if ok {
		date = from.Unix()
	} else {
		from = time.Now()
	}
	return min(max(min(at.Sub(from), Longest), -Longest)+unit, Longest), date
}

// parseDate reads the three forms of a date of HTTP. A text longer than maxNumber is no date.
func parseDate(s string) (time.Time, bool) {
	if s == "" || len(s) > maxNumber {
		return time.Time{}, false
	}
	date, err := http.ParseTime(strings.TrimSpace(s))
	return date, err == nil
}

// duration reads a text such as 1m30s, 6m0s or 500ms, as OpenAI sends it.
func duration(s string) (time.Duration, bool) {
	if last := s[len(s)-1]; s[0]-'0' > 9 || last != 's' && last != 'm' && last != 'h' {
		return 0, false
	}
	d, err := time.ParseDuration(s)
	return min(d, Longest), err == nil
}

// layouts are forms of dates that HTTP does not have: ISO 8601, Date.toString of JavaScript, and
// those of mail (RFC 5322), as Python's formatdate and Go's time.RFC1123 write them. unit is what a
// date may have been rounded down to.
var layouts = [...]struct {
	layout string
	unit   time.Duration
}{
	{"2006-01-02T15:04:05Z07:00", time.Second},
	{"2006-01-02T15:04Z07:00", time.Minute}, // Atlassian
	{"2006-01-02T15:04:05Z0700", time.Second},
	{"2006-01-02 15:04:05Z07:00", time.Second},
	{"2006-01-02 15:04:05", time.Second},
	{"Mon Jan 02 2006 15:04:05 GMT-0700", time.Second},
	{"Mon, 2 Jan 2006 15:04:05 UTC", time.Second}, // go-limiter
	{"Mon, 2 Jan 2006 15:04:05 -0700", time.Second},
}

// instantOf reads a date, and the unit to which it may have been rounded down.
func instantOf(s string) (at time.Time, unit time.Duration, ok bool) {
	if s[0]-'0' > 9 { // dates of HTTP begin with a letter; a failed attempt allocates errors
		if at, ok = parseDate(s); ok {
			return at, time.Second, true
		}
	}
	s, _, _ = strings.Cut(s, " (") // the name of a zone
	for _, l := range layouts {
		if at, err := time.Parse(l.layout, s); err == nil {
			if at.Nanosecond() != 0 {
				return at, 0, true
			}
			return at, l.unit, true
		}
	}
	return time.Time{}, 0, false
}

// RetryAfter is the name of the field that most denials have.
const RetryAfter = "Retry-After"

// retries are the fields that say how long to wait after a denial, in the order in which they are
// believed. Docker Hub has documented X-Retry-After; services of Azure send the last two.
var retries = [...]struct {
	field, source string
	milliseconds  bool
}{
	{"Retry-After", RetryAfter, false},
	{"X-Retry-After", "X-Retry-After", false},
	{"Retry-After-Ms", "retry-after-ms", true},
	{"X-Ms-Retry-After-Ms", "x-ms-retry-after-ms", true},
}

// WaitOf reads how long to wait after a denial, and which field says so. The longest wait of
// several lines or numbers counts.
func WaitOf(h http.Header) (wait time.Duration, source string, ok bool) {
	for _, r := range &retries {
		if wait, _, ok = latest(h[r.field], r.milliseconds, h); ok {
			return wait, r.source, true
		}
	}
	return namedRetryOf(h)
}

// namedRetryOf reads the longest of several waits, each in a field named after its limit, as the
// throttlers of NestJS send it: Retry-After-Short. It gives up on an answer of more than maxFields
// fields.
func namedRetryOf(h http.Header) (wait time.Duration, source string, ok bool) {
	const prefix, maxFields = "Retry-After-", 100
	if len(h) > maxFields {
		return 0, "", false
	}
	for name, lines := range h {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if w, _, read := latest(lines, false, h); read && (!ok || w > wait) {
			wait, source, ok = w, prefix+"*", true
		}
	}
	return wait, source, ok
}

// latest reads a field that says when something ends: the last of several moments counts. Of a
// field in milliseconds the first line does. latest reads maxLimits lines at most: an answer may
// have half a million.
func latest(lines []string, inMilliseconds bool, h http.Header) (
	wait time.Duration, date int64, ok bool) {
	for _, line := range lines[:min(len(lines), maxLimits)] {
		if inMilliseconds {
			n, ok := readNumber(line)
			return n.times(time.Millisecond), 0, ok
		}
		w, d, one := moment(line, h) // a date has a comma
		if one && (!ok || w > wait) {
			wait, date, ok = w, d, true
		}
		if one || len(line) > maxList {
			continue
		}
		for element := range strings.SplitSeq(line, ",") {
			if w, d, one := moment(element, h); one && (!ok || w > wait) {
				wait, date, ok = w, d, true
			}
		}
	}
	return wait, date, ok
}
