package quota

import (
	"net/http"
	"strings"
	"time"
)

// moment reads when a wait or a limit ends. Every field may have every form, and in quotes, too: a
// number, see units; a duration such as 1m30s or 60 seconds; a date. The result is the wait from
// the answer on, negative if the end is past. date is that of until, or 0 if s is no instant.
func moment(s string, h http.Header) (wait time.Duration, date int64, ok bool) {
	if n, ok := readQuoted(s); ok {
		wait, date = n.moment(h)
		return wait, date, true
	}
	if value := bare(s); len(value) < len(s) { // parameters are ignored, as in drafts -04 to -06
		return moment(value, h)
	}
	s = unquoted(s)
	if s == "" || len(s) > maxNumber {
		return 0, 0, false
	}
	if wait, ok = duration(s); ok {
		return wait, 0, true
	}
	at, ok := instantOf(s)
	if !ok {
		return 0, 0, false
	}
	wait, date = until(at, h)
	return wait, date, true
}

// until returns the wait from the answer to an instant. Both are by the clock of the server that
// wrote Date; without Date, by our own clock. What the server may have rounded down is added. date
// is Date in Unix time, or 0 without one.
func until(at instant, h http.Header) (wait time.Duration, date int64) {
	var from instant
	if s := First(h, "Date"); s != "" && len(s) <= maxNumber {
		if read, ok := instantOf(s); ok {
			from, date = read, read.second
		}
	}
	if date == 0 {
		now := time.Now()
		from = instant{second: now.Unix(), nanosecond: int64(now.Nanosecond())}
	}
	const most = int64(Longest / time.Second)
	seconds := min(max(at.second-from.second, -most), most)
	wait = time.Duration(seconds)*time.Second + time.Duration(at.nanosecond-from.nanosecond)
	wait = min(max(wait, -Longest), Longest)
	return min(wait+time.Duration(at.coarse)*time.Second, Longest), date
}

// spans are the units of durations, by their names in the singular.
var spans = [...]struct {
	name string
	unit time.Duration
}{
	{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour},
	{"ms", time.Millisecond}, {"us", time.Microsecond}, {"µs", time.Microsecond},
	{"ns", time.Nanosecond}, {"sec", time.Second}, {"second", time.Second},
	{"min", time.Minute}, {"minute", time.Minute}, {"hr", time.Hour}, {"hour", time.Hour},
	{"day", 24 * time.Hour}, {"msec", time.Millisecond}, {"millisecond", time.Millisecond},
}

// duration reads numbers with their units: 1m30s or 500ms, as OpenAI sends it, and 60 seconds.
func duration(s string) (d time.Duration, ok bool) {
	for s != "" {
		end := 0
		for end < len(s) && (isDigit(s[end]) || s[end] == '.') {
			end++
		}
		n, ok := readNumber(s[:end])
		if !ok {
			return 0, false
		}
		s = strings.TrimLeft(s[end:], " ")
		for end = 0; end < len(s) && (isLetter(s[end]) || s[end] > '~'); {
			end++
		}
		unit := unitOf(s[:end])
		if unit == 0 {
			return 0, false
		}
		d = min(d+n.times(unit), Longest)
		s = strings.TrimLeft(s[end:], " ")
	}
	return d, true
}

// unitOf returns the unit with a name, or 0.
func unitOf(name string) time.Duration {
	plural := len(name) > 2 && name[len(name)-1]|0x20 == 's'
	for i := range spans {
		of := &spans[i]
		if strings.EqualFold(name, of.name) || plural && strings.EqualFold(name[:len(name)-1], of.name) {
			return of.unit
		}
	}
	return 0
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
	if wait, source, ok = unifiedOf(h); ok {
		return wait, source, true
	}
	return namedRetryOf(h)
}

// maxFields is how many fields an answer may have for those to be found whose names vary.
const maxFields = 100

// unifiedOf reads when the windows of a subscription of Anthropic end that have denied: the last
// one counts, since all must allow. Answers tell a share that is used, and no number of requests. A
// window has three fields, and the fields without a window are those of one of them:
//
//	anthropic-ratelimit-unified-5h-status: rejected
//	anthropic-ratelimit-unified-5h-utilization: 1.0
//	anthropic-ratelimit-unified-5h-reset: 1785685200
//	anthropic-ratelimit-unified-status: rejected
func unifiedOf(h http.Header) (wait time.Duration, source string, ok bool) {
	const prefix, suffix = "Anthropic-Ratelimit-Unified-", "-Status"
	if First(h, prefix+"Status") == "" || len(h) > maxFields {
		return 0, "", false
	}
	for name, lines := range h {
		window, isWindow := strings.CutPrefix(name, prefix)
		window, isStatus := strings.CutSuffix(window, suffix)
		if !isWindow || !isStatus || len(lines) == 0 || !strings.EqualFold(lines[0], "rejected") {
			continue
		}
		if w, _, read := latest(h[prefix+window+"-Reset"], false, h); read && (!ok || w > wait) {
			wait, source, ok = w, strings.ToLower(prefix+window)+"-reset", true
		}
	}
	if ok || !strings.EqualFold(First(h, prefix+"Status"), "rejected") {
		return wait, source, ok
	}
	wait, _, ok = latest(h[prefix+"Reset"], false, h)
	return wait, "anthropic-ratelimit-unified-reset", ok
}

// namedRetryOf reads the longest of several waits, each in a field named after its limit, as the
// throttlers of NestJS send it: Retry-After-Short. It gives up on an answer of more than maxFields
// fields.
func namedRetryOf(h http.Header) (wait time.Duration, source string, ok bool) {
	const prefix = "Retry-After-"
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
			n, ok := readQuoted(line)
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
