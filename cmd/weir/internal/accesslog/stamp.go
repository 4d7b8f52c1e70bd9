package accesslog

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// clfClock parses stamps such as 17/May/2015:10:05:03 +0000. It caches the minute, since most
// stamps differ only in seconds.
type clfClock struct {
	minute [17]byte // 17/May/2015:10:05
	zone   [5]byte
	at     int64 // start of the minute, seconds since the epoch
}

const clfStamp = "02/Jan/2006:15:04:05 -0700"

// read returns microseconds since the epoch.
func (c *clfClock) read(s []byte) (at int64, ok bool) {
	if len(s) != len(clfStamp) || s[17] != ':' || s[20] != ' ' {
		return 0, false
	}
	second, ok := twoDigits(s[18], s[19])
	if !ok || second > 60 { // 60: a leap second
		return 0, false
	}
	if string(s[:17]) != string(c.minute[:]) || string(s[21:]) != string(c.zone[:]) {
		t, err := time.Parse("02/Jan/2006:15:04 -0700", string(s[:17])+string(s[20:]))
		if err != nil {
			return 0, false
		}
		copy(c.minute[:], s)
		copy(c.zone[:], s[21:])
		c.at = t.Unix()
	}
	return inRange((c.at + int64(second)) * 1_000_000)
}

func twoDigits(a, b byte) (n int, ok bool) {
	if a < '0' || a > '9' || b < '0' || b > '9' {
		return 0, false
	}
	return int(a-'0')*10 + int(b-'0'), true
}

// maxInstant is the latest time that the engine supports, in the year 2255.
const maxInstant = 1<<53 - 1

func inRange(us int64) (int64, bool) { return us, us >= 0 && us <= maxInstant }

// layouts are the layouts of stamps in logs, besides numbers. Go accepts a fraction of a second
// with any layout.
var layouts = []struct {
	layout string
	local  bool // it names no zone
}{
	{time.RFC3339, false}, {"2006-01-02T15:04:05Z0700", false}, {"2006-01-02T15:04:05", true},
	{"2006-01-02 15:04:05Z07:00", false}, {"2006-01-02 15:04:05 -0700", false},
	{"2006-01-02 15:04:05", true}, {"2006/01/02 15:04:05", true}, {clfStamp, false},
	{"02/Jan/2006:15:04:05", true},  // HAProxy
	{"2006/01/02 - 15:04:05", true}, // gin
	{"02/Jan/2006 15:04:05", true},  // Werkzeug, and the server of Python
	{time.RFC1123Z, false}, {time.RFC1123, false}, {time.ANSIC, true}, {time.UnixDate, false},
}

// stamps reads the stamps of one log.
type stamps struct {
	layout int  // layout of the previous stamp, which is tried first
	local  bool // the previous stamp names no zone: it was read as UTC
}

// read parses a stamp: a text in one of the layouts, or a number since the epoch whose size
// determines its unit. exact reports whether it is finer than a second.
func (c *stamps) read(s []byte) (at int64, exact, ok bool) {
	s = bytes.Trim(s, " []")
	if len(s) == 0 || len(s) > 64 {
		return 0, false, false
	}
	if isNumber(s) {
		c.local = false
		return readEpoch(s)
	}
	text := view(s)
	for i := range layouts {
		try := (i + c.layout) % len(layouts)
		if t, err := time.Parse(layouts[try].layout, text); err == nil {
			c.layout, c.local = try, layouts[try].local
			at, ok = inRange(t.UnixMicro())
			return at, hasFraction(s), ok
		}
	}
	return 0, false, false
}

// hasFraction reports whether a stamp has digits after its seconds.
func hasFraction(s []byte) bool {
	i := bytes.LastIndexByte(s, ':')
	if i >= 6 && s[i-3] != ':' { // the colon belongs to a zone
		i = bytes.LastIndexByte(s[:i], ':')
	}
	if i < 0 || i+3 >= len(s) {
		return false
	}
	return s[i+3] == '.' || s[i+3] == ','
}

func isNumber(s []byte) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && c != '.' && c != 'e' && c != 'E' && c != '+' {
			return false
		}
	}
	return true
}

// readEpoch parses a number since the epoch. Numbers from 10¹¹ on are milliseconds, from 10¹⁴ on
// microseconds and from 10¹⁷ on nanoseconds: as seconds they would be after the year 5000.
func readEpoch(s []byte) (at int64, exact, ok bool) {
	whole, fraction, found := bytes.Cut(s, []byte("."))
	n, err := strconv.ParseInt(view(whole), 10, 64)
	if err != nil { // such as 1.5e9
		f, err := strconv.ParseFloat(view(s), 64)
		if err != nil || f < 0 || f > 1e11 {
			return 0, false, false
		}
		at, ok = inRange(int64(f * 1e6))
		return at, true, ok
	}
	switch {
	case n >= 1e17:
		at, exact = n/1000, true
	case n >= 1e14:
		at, exact = n, true
	case n >= 1e11:
		at, exact = n*1000, true
	default:
		at = n * 1_000_000
		if found {
			us, ok := microseconds(fraction)
			if !ok {
				return 0, false, false
			}
			at, exact = at+us, true
		}
	}
	at, ok = inRange(at)
	return at, exact, ok
}

// microseconds parses the fraction of a second.
func microseconds(digits []byte) (us int64, ok bool) {
	for i := range max(6, len(digits)) {
		c := byte('0')
		if i < len(digits) {
			c = digits[i]
		}
		if c < '0' || c > '9' {
			return 0, false
		}
		if i < 6 {
			us = us*10 + int64(c-'0')
		}
	}
	return us, true
}

// readDuration parses a number of units, or a text such as "12ms".
func readDuration(s []byte, unit time.Duration) (time.Duration, bool) {
	if len(s) == 0 || len(s) > 40 {
		return 0, false
	}
	f, err := strconv.ParseFloat(view(s), 64)
	if err != nil {
		d, err := time.ParseDuration(view(s))
		return d, err == nil && d >= 0 && d < maxLasted
	}
	if !(f >= 0 && f*float64(unit) < float64(maxLasted)) {
		return 0, false
	}
	return time.Duration(f * float64(unit)), true
}

// maxLasted is the longest plausible duration.
const maxLasted = 7 * 24 * time.Hour

// unitOf returns the unit that the name of a field says, as in duration_ms and latencyNanos, or 0.
func unitOf(name string) time.Duration {
	name = "_" + strings.ToLower(name)
	for _, u := range []struct {
		unit  time.Duration
		names []string
	}{
		{time.Nanosecond, []string{"_ns", "nanos", "nanoseconds"}},
		{time.Microsecond, []string{"_us", "_µs", "micros", "microseconds"}},
		{time.Millisecond, []string{"_ms", "millis", "milliseconds"}},
		{time.Second, []string{"_s", "_sec", "_secs", "seconds"}},
	} {
		if slices.ContainsFunc(u.names, func(end string) bool {
			return strings.HasSuffix(name, end)
		}) {
			return u.unit
		}
	}
	return 0
}
