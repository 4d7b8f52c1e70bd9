package quota

import (
	"strings"
	"time"
)

// instant is an instant as a text tells it.
type instant struct {
	second     int64 // since 1970
	nanosecond int64
	coarse     int64 // seconds to which it may have been rounded down: 60, 1, or 0 with decimals
}

// instantOf reads a date with a time, as programs write it:
//
//	Sun, 22 Nov 2026 10:00:00 GMT             HTTP; and UTC or +0000, as mail and Go have it
//	Sunday, 22-Nov-26 10:00:00 GMT            RFC 850
//	Sun Nov 22 10:00:00 2026                  asctime; and with a zone, as date and Java have it
//	Sun Nov 22 2026 10:00:00 GMT+0000 (UTC)   JavaScript
//	2026-11-22T10:00:00.000Z                  ISO 8601, with or without seconds and zone
//	2026-11-22 10:00:00 UTC                   Ruby, Python and others
//	2026-11-22 10:00:00.5 +0100 CET m=+0.5    time.Time.String of Go
//
// Without a zone it is in UTC. An abbreviation of another zone means nothing without an offset, and
// numbers such as 11/22/2026 have two readings: neither is read.
func instantOf(s string) (instant, bool) {
	d := dateReader{rest: s}
	ok := (d.usual() || d.date()) && d.complete()
	return d.instant(), ok
}

// dateReader reads the parts of a date in any order in which they are told apart.
type dateReader struct {
	rest             string
	year, month, day int // 0: not read
	clock            int64
	nanosecond       int64
	offset           int64 // of the zone, in seconds
	timed, zoned     bool
	seconds          bool // the time has seconds
	decimals         bool // other than zeros
}

// usual reads the form of HTTP, which nearly every answer has in Date, by the places of its parts: in
// a fifth of the time of date. It returns false, and has read nothing, if any part is not as usual.
func (d *dateReader) usual() bool {
	s := d.rest
	if len(s) != len("Sun, 22 Nov 2026 10:00:00 GMT") || s[3:5] != ", " || s[7] != ' ' ||
		s[11] != ' ' || s[16] != ' ' || s[19] != ':' || s[22] != ':' || s[25:] != " GMT" {
		return false
	}
	day, month, century, year := pair(s, 5), nameIn(months, s[8:11]), pair(s, 12), pair(s, 14)
	hour, minute, second := pair(s, 17), pair(s, 20), pair(s, 23)
	if min(day, month, century, year, hour, minute, second, nameIn(weekdays, s[:3])) < 0 ||
		hour > 23 || minute > 59 || second > 60 {
		return false
	}
	d.year, d.month, d.day = 100*century+year, month+1, day
	d.clock, d.timed, d.seconds = int64(hour*3600+minute*60+second), true, true
	return true
}

// pair returns the number that two digits of s are, or -1.
func pair(s string, at int) int {
	if !isDigit(s[at]) || !isDigit(s[at+1]) {
		return -1
	}
	return 10*int(s[at]-'0') + int(s[at+1]-'0')
}

func (d *dateReader) date() bool {
	if len(d.rest) > 10 && d.rest[4] == '-' && isDigit(d.rest[0]) {
		if !d.isoDay() {
			return false
		}
	}
	for {
		for d.rest != "" && (d.rest[0] == ' ' || d.rest[0] == ',') {
			d.rest = d.rest[1:]
		}
		if d.rest == "" {
			return true
		}
		switch c := d.rest[0]; {
		case isDigit(c):
			if !d.number() {
				return false
			}
		case c == '+' || c == '-':
			if !d.timed || !d.zone() {
				return false
			}
		case c == '(' || c == '[': // the name of the zone
			return d.zoned
		case isLetter(c):
			if strings.HasPrefix(d.rest, "m=") && d.zoned { // of Go's monotonic clock
				return true
			}
			if !d.word() {
				return false
			}
		default:
			return false
		}
	}
}

// isoDay reads 2026-11-22, and the T before the time.
func (d *dateReader) isoDay() (ok bool) {
	if d.year, ok = d.digits(4, 4); !ok || !d.skip('-') {
		return false
	}
	if d.month, ok = d.digits(2, 2); !ok || !d.skip('-') {
		return false
	}
	if d.day, ok = d.digits(2, 2); !ok || d.rest == "" {
		return false
	}
	return d.skip('T') || d.skip('t') || d.rest[0] == ' '
}

// number reads what begins with a digit: a time, a day or a year.
func (d *dateReader) number() bool {
	width := 0
	for width < len(d.rest) && isDigit(d.rest[width]) {
		width++
	}
	if width < len(d.rest) && d.rest[width] == ':' {
		return d.time()
	}
	n, ok := d.digits(1, 4)
	switch {
	case !ok:
		return false
	case width <= 2 && d.day == 0:
		d.day = n
		if d.skip('-') { // RFC 850
			return d.rest != "" && isLetter(d.rest[0]) && d.word() && d.skip('-') &&
				d.rest != "" && isDigit(d.rest[0])
		}
		return d.rest == "" || d.rest[0] == ' ' || d.rest[0] == ','
	case width == 4 && d.year == 0:
		d.year = n
		return true
	case width == 2 && d.year == 0:
		d.year = 2000 + n
		if d.year > time.Now().Year()+50 { // RFC 9110, section 5.6.7
			d.year -= 100
		}
		return true
	}
	return false
}

// time reads 10:00, 10:00:00 or 10:00:00.5, and a zone that follows at once.
func (d *dateReader) time() bool {
	if d.timed {
		return false
	}
	d.timed = true
	hour, ok := d.digits(1, 2)
	if !ok || hour > 23 || !d.skip(':') {
		return false
	}
	minute, ok := d.digits(2, 2)
	if !ok || minute > 59 {
		return false
	}
	second := 0
	if d.skip(':') {
		d.seconds = true
		if second, ok = d.digits(2, 2); !ok || second > 60 { // 60: a leap second
			return false
		}
		if d.skip('.') || d.skip(',') {
			if !d.fraction() {
				return false
			}
		}
	}
	d.clock = int64(hour*3600 + minute*60 + second)
	if d.rest == "" || d.rest[0] == ' ' || d.rest[0] == ',' {
		return true
	}
	if d.skip('Z') || d.skip('z') {
		d.zoned = true
		return d.rest == "" || d.rest[0] == '['
	}
	return (d.rest[0] == '+' || d.rest[0] == '-') && d.zone()
}

// fraction reads decimals of a second, of which nine count.
func (d *dateReader) fraction() bool {
	width, unit := 0, int64(100_000_000)
	for ; width < len(d.rest) && isDigit(d.rest[width]); width++ {
		digit := int64(d.rest[width] - '0')
		d.nanosecond += digit * unit
		unit /= 10
		d.decimals = d.decimals || digit > 0
	}
	d.rest = d.rest[width:]
	return width > 0
}

// zone reads an offset: +01:00, +0100 or +01.
func (d *dateReader) zone() bool {
	if d.offset != 0 {
		return false
	}
	sign := int64(1)
	if d.rest[0] == '-' {
		sign = -1
	}
	d.rest = d.rest[1:]
	hour, ok := d.digits(2, 2)
	if !ok || hour > 23 {
		return false
	}
	minute := 0
	if d.skip(':') || d.rest != "" && isDigit(d.rest[0]) {
		if minute, ok = d.digits(2, 2); !ok || minute > 59 {
			return false
		}
	}
	d.offset, d.zoned = sign*int64(hour*3600+minute*60), true
	return d.rest == "" || d.rest[0] == ' ' || d.rest[0] == '['
}

// months and weekdays are the first three letters of their names, in order.
const (
	months   = "janfebmaraprmayjunjulaugsepoctnovdec"
	weekdays = "monsuntuewedthufrisat"
)

// word reads the name of a month, a day of the week, or a zone.
func (d *dateReader) word() bool {
	end := 1
	for end < len(d.rest) && isLetter(d.rest[end]) {
		end++
	}
	word := d.rest[:end]
	d.rest = d.rest[end:]
	if d.timed && (word == "GMT" || word == "UTC" || word == "Z" || word == "UT") {
		d.zoned = true
		return d.rest == "" || d.rest[0] == ' ' || d.rest[0] == '[' ||
			(d.rest[0] == '+' || d.rest[0] == '-') && d.zone()
	}
	if end < 3 {
		return false
	}
	if i := nameIn(months, word); i >= 0 && d.month == 0 {
		d.month = i + 1
		return true
	}
	return d.zoned || nameIn(weekdays, word) >= 0 // zoned: +0100 CET
}

// nameIn returns the index of a name in a text of three letters for each, or -1.
func nameIn(names, word string) int {
	for i := 0; i < len(names); i += 3 {
		if word[0]|0x20 == names[i] && word[1]|0x20 == names[i+1] && word[2]|0x20 == names[i+2] {
			return i / 3
		}
	}
	return -1
}

// complete reports whether the parts are a date with a time.
func (d *dateReader) complete() bool {
	return d.timed && d.year > 0 && d.month >= 1 && d.month <= 12 && d.day >= 1 &&
		d.day <= daysIn(d.year, d.month)
}

func daysIn(year, month int) int {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	}
	return 31
}

// instant returns the instant of the parts. It counts the days since March 1 of year 0, so that a
// leap day is the last one of its year.
func (d *dateReader) instant() instant {
	year, month := int64(d.year), int64(d.month)
	if month -= 3; month < 0 {
		year, month = year-1, month+12
	}
	const daysUntil1970 = 719_468
	days := 365*year + year/4 - year/100 + year/400
	days += (153*month+2)/5 + int64(d.day) - 1 - daysUntil1970
	at := instant{second: days*86400 + d.clock - d.offset, nanosecond: d.nanosecond, coarse: 1}
	switch {
	case d.decimals:
		at.coarse = 0
	case !d.seconds:
		at.coarse = 60
	}
	return at
}

// digits reads a number of least to most digits.
func (d *dateReader) digits(least, most int) (n int, ok bool) {
	width := 0
	for width < len(d.rest) && width < most && isDigit(d.rest[width]) {
		n = 10*n + int(d.rest[width]-'0')
		width++
	}
	d.rest = d.rest[width:]
	return n, width >= least
}

// skip skips one character, if it is next.
func (d *dateReader) skip(c byte) bool {
	if d.rest == "" || d.rest[0] != c {
		return false
	}
	d.rest = d.rest[1:]
	return true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
