package client

import (
	"net/http"
	"strings"
	"time"
)

// Numbers from these on are instants since the Unix epoch: as seconds to go they would be more than 31
// years. Of instants, the size tells the unit, as in the logs that weir simulate reads: in the next larger
// unit it would be after the year 5000.
const (
	fromSeconds      = 1e9
	fromMilliseconds = 1e11
	fromMicroseconds = 1e14
	fromNanoseconds  = 1e17
)

// moment reads when a wait or a limit ends, in any form that servers send in any field: seconds to go; seconds,
// milliseconds, microseconds or nanoseconds since the Unix epoch; a duration such as 1m30s; a date. It
// returns the wait from the answer on, negative if the end is past. The date is that of until, 0 for
// what is no instant.
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
	wait, date = until(at.Unix(), int64(at.Nanosecond()), unit, h)
	return wait, date, true
}

// moment is what the function moment returns for a number.
func (n number) moment(h http.Header) (wait time.Duration, date int64) {
	unit := time.Second
	switch {
	case n.whole < fromSeconds:
		return n.seconds(), 0
	case n.whole >= fromNanoseconds:
		unit = time.Nanosecond
	case n.whole >= fromMicroseconds:
		unit = time.Microsecond
	case n.whole >= fromMilliseconds:
		unit = time.Millisecond
	}
	second := int64(time.Second / unit)
	part := n.whole%second*int64(unit) + (n.billionths*int64(unit)+999_999_999)/1_000_000_000
	rounded := time.Duration(0)
	if part == 0 {
		rounded = time.Second
	}
	return until(n.whole/second, part, rounded, h)
}

// until returns the wait from the answer to an instant, both by the clock of the server that wrote
// Date. The instant is seconds and billionths since the Unix epoch. Date is also returned in Unix
// time, or 0 if the answer has none: until then uses our own clock. The instant may have been
// rounded down to a multiple of unit, which is added; 0 if it is told to the millisecond at least.
func until(at, billionths int64, unit time.Duration, h http.Header) (wait time.Duration, date int64) {
	if date, ok := parseDate(first(h, "Date")); ok {
		return min(span(at-date.Unix(), billionths)+unit, longest), date.Unix()
	}
	now := time.Now()
	return min(span(at-now.Unix(), billionths-int64(now.Nanosecond()))+unit, longest), 0
}

// span returns a time in seconds, longest at most in either direction.
func span(whole, billionths int64) time.Duration {
	whole = max(min(whole, int64(longest/time.Second)), -int64(longest/time.Second))
	return max(min(time.Duration(whole)*time.Second+time.Duration(billionths), longest), -longest)
}

// parseDate reads the three forms of a date of HTTP. A longer text is no date, and would be copied
// into an error.
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
	return min(d, longest), err == nil
}

// layouts are forms of dates that HTTP does not have: those of ISO 8601, and what JavaScript makes of a Date.
var layouts = [...]struct {
	layout string
	unit   time.Duration
}{
	{"2006-01-02T15:04:05Z07:00", time.Second},
	{"2006-01-02T15:04Z07:00", time.Minute}, // of Atlassian
	{"2006-01-02T15:04:05Z0700", time.Second},
	{"2006-01-02 15:04:05Z07:00", time.Second},
	{"2006-01-02 15:04:05", time.Second},
	{"Mon Jan 02 2006 15:04:05 GMT-0700", time.Second},
}

// instantOf reads a date, and to which unit it may have been rounded down.
func instantOf(s string) (at time.Time, unit time.Duration, ok bool) {
	if s[0]-'0' > 9 { // to try what it is not would allocate errors
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

const sourceRetryAfter = "Retry-After"

// retries are fields that say how long to wait after a denial, in the order of belief. Docker Hub has documented
// X-Retry-After; services of Azure send the last two.
var retries = [...]struct {
	field, source string
	milliseconds  bool
}{
	{"Retry-After", sourceRetryAfter, false},
	{"X-Retry-After", "X-Retry-After", false},
	{"Retry-After-Ms", "retry-after-ms", true},
	{"X-Ms-Retry-After-Ms", "x-ms-retry-after-ms", true},
}

// retryOf reads how long to wait after a denial, and which field says so: of several lines or numbers,
// the longest wait counts.
func retryOf(h http.Header) (wait time.Duration, source string, ok bool) {
	for _, r := range &retries {
		if r.milliseconds {
			wait, ok = milliseconds(first(h, r.field))
		} else {
			wait, _, ok = latest(h[r.field], h)
		}
		if ok {
			return wait, r.source, true
		}
	}
	return 0, "", false
}

// milliseconds reads milliseconds to go, rounded up.
func milliseconds(s string) (time.Duration, bool) {
	n, ok := readNumber(s)
	return number{n.whole / 1000, n.whole%1000*1e6 + (n.billionths+999)/1000}.seconds(), ok
}

// latest reads a field that says when something ends: of several moments the last one counts. It reads maxLimits
// lines at most: an answer may have half a million.
func latest(values []string, h http.Header) (wait time.Duration, date int64, ok bool) {
	for _, value := range values[:min(len(values), maxLimits)] {
		w, d, isMoment := moment(value, h)
		if isMoment && (!ok || w > wait) {
			wait, date, ok = w, d, true
		}
		if isMoment || len(value) > maxList {
			continue
		}
		for element := range strings.SplitSeq(value, ",") {
			if w, d, isMoment := moment(element, h); isMoment && (!ok || w > wait) {
				wait, date, ok = w, d, true
			}
		}
	}
	return wait, date, ok
}
