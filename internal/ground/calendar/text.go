package calendar

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// UTC is the zone of a period that names none.
const UTC = "UTC"

// Text returns the text of a period, such as "month from 15 in Europe/Berlin". It omits the usual
// start and UTC.
func Text(unit, start, zone string) string {
	text := unit
	if start != "" && start != usual[unit] {
		text += " from " + start
	}
	if zone != "" && zone != UTC {
		text += " in " + zone
	}
	return text
}

// usual is the day on which a period of each unit begins unless the text names another.
var usual = map[string]string{"day": "", "week": "monday", "month": "1", "year": "january 1"}

// Split returns the parts of a text that Text wrote.
func Split(text string) (unit, start, zone string) {
	text, zone, _ = strings.Cut(text, " in ")
	unit, start, _ = strings.Cut(text, " from ")
	return unit, start, zone
}

// Hash returns a hash of a text that is the same in every process. The hash of "" is 0.
func Hash(text string) (h uint64) {
	for _, c := range []byte(text) {
		h = (h ^ uint64(c) + 1) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// Length returns the longest time that a period of a text lasts, without the hour by which clocks
// change.
func Length(text string) time.Duration {
	unit, _, _ := Split(text)
	return lengths[unit]
}

const day = 24 * time.Hour

var lengths = map[string]time.Duration{"day": day, "week": 7 * day, "month": 31 * day,
	"year": 366 * day}

// known has the calendars by their texts: at most as many as zones times days of a year.
var known sync.Map

// lastID is the ID of the latest Calendar.
var lastID atomic.Int64

// Of returns the calendar of a text. Equal texts get the same Calendar. The error says what to
// change.
func Of(text string) (*Calendar, error) {
	if c, ok := known.Load(text); ok {
		return c.(*Calendar), nil
	}
	unit, start, name := Split(text)
	k, err := kindOf(unit, start)
	zone, zoneErr := zoneOf(name)
	if err := errors.Join(err, zoneErr); err != nil {
		return nil, err
	}
	c, _ := known.LoadOrStore(text, &Calendar{ID: lastID.Add(1), kind: k, zone: zone})
	return c.(*Calendar), nil
}

func kindOf(unit, start string) (kind, error) {
	if start == "" {
		start = usual[unit]
	}
	switch unit {
	case "day":
		if start == "" {
			return kind{unit: unit}, nil
		}
		return kind{}, fmt.Errorf("a day begins at midnight: remove %q", "from "+shown(start))
	case "week":
		for d := time.Sunday; d <= time.Saturday; d++ {
			if start == strings.ToLower(d.String()) {
				return kind{unit: unit, day: (int(d)+6)%7 + 1}, nil
			}
		}
		return kind{}, fmt.Errorf(`a week begins on a day such as "monday" (got %q)`, shown(start))
	case "month":
		if d, ok := number(start); ok && d >= 1 && d <= 31 {
			return kind{unit: unit, day: d}, nil
		}
		return kind{}, fmt.Errorf("a month begins on a day from 1 to 31 (got %q)", shown(start))
	case "year":
		if month, d, ok := dateOf(start); ok {
			return kind{unit: unit, month: month, day: d}, nil
		}
		return kind{}, fmt.Errorf(`a year begins on a date such as "april 6" (got %q)`, shown(start))
	}
	return kind{}, fmt.Errorf("a period of the calendar is a day, week, month or year (got %q)",
		shown(unit))
}

// dateOf reads "april 6".
func dateOf(text string) (month time.Month, d int, ok bool) {
	name, day, _ := strings.Cut(text, " ")
	d, ok = number(day)
	for month = time.January; month <= time.December; month++ {
		if name == strings.ToLower(month.String()) {
			const leapYear = 2000
			last := time.Date(leapYear, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
			return month, d, ok && d >= 1 && d <= last
		}
	}
	return 0, 0, false
}

// number reads a number as Itoa writes it. It refuses "07", so that equal periods have equal texts.
func number(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && strconv.Itoa(n) == text
}

// zones has the zones found so far, by name.
var zones sync.Map

// loadZone is a variable for tests.
var loadZone = time.LoadLocation

// zoneOf returns the zone of an IANA name.
func zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if z, ok := zones.Load(name); ok {
		return z.(*time.Location), nil
	}
	if !mayBeZone(name) {
		return nil, fmt.Errorf(`a time zone is a name of the IANA such as "Europe/Berlin" (got %q)`,
			shown(name))
	}
	zone, err := loadZone(name)
	if err == nil {
		zones.Store(name, zone)
		return zone, nil
	}
	if _, missing := loadZone("Europe/London"); missing != nil {
		return nil, fmt.Errorf(`time zone %q: no time zone data: import _ "time/tzdata" in the program`,
			shown(name))
	}
	return nil, fmt.Errorf(`unknown time zone %q: use a name of the IANA such as "Europe/Berlin"`,
		shown(name))
}

// mayBeZone reports whether name may be an IANA name. Systems open the files of other names, too.
// "Europe//Berlin" would make a second calendar of "Europe/Berlin", and there are endless such
// names. "localtime", "posixrules", "posix/…" and "right/…" mean different things on different
// machines.
func mayBeZone(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.ContainsFunc(part, isNotInZones) {
			return false
		}
	}
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case "Local", "localtime", "posixrules", "posix", "right":
		return false
	}
	return len(name) <= 64
}

// isNotInZones reports whether no IANA name contains r.
func isNotInZones(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("_-+", r))
}

// shown returns the first 60 bytes of a text, for an error.
func shown(text string) string { return fmt.Sprintf("%.60s", text) }
