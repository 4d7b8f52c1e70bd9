package client

import (
	"net/http"
	"strings"
	"time"
)

// until returns the wait from the answer to an instant, both by the clock of whoever wrote
// Date. The instant is seconds and billionths since the Unix epoch. Date is also returned in Unix time,
// or 0 if the answer has none: until then uses our own clock. The instant may have been rounded down to a multiple of
// unit, which is added; 0 if it is told to the millisecond at least.
func until(at, billionths int64, unit time.Duration, h http.Header) (wait time.Duration, date int64) {
	if date, ok := dateOf(h); ok {
		return min(span(at-date, billionths)+unit, longest), date
	}
	now := time.Now()
	return min(span(at-now.Unix(), billionths-int64(now.Nanosecond()))+unit, longest), 0
}

// span returns a time in seconds, longest at most in either direction.
func span(whole, billionths int64) time.Duration {
	whole = max(min(whole, int64(longest/time.Second)), -int64(longest/time.Second))
	return max(min(time.Duration(whole)*time.Second+time.Duration(billionths), longest), -longest)
}

// dateOf reads Date as Unix time.
func dateOf(h http.Header) (int64, bool) {
	text := first(h, "Date")
	if text == "" {
		return 0, false
	}
	if date, ok := fixdate(text); ok {
		return date, true
	}
	date, ok := parseDate(text)
	return date.Unix(), ok
}

// parseDate reads the three forms of a date of HTTP. None is longer than 64 bytes, and the parser's
// error holds several copies of what it is given.
func parseDate(s string) (time.Time, bool) {
	if len(s) > 64 {
		return time.Time{}, false
	}
	date, err := http.ParseTime(strings.TrimSpace(s))
	return date, err == nil
}

const fixdateForm = "Mon, 02 Jan 2006 15:04:05 GMT"

// fixdate reads the form of a date that all servers send (RFC 9110, section 5.6.7) as Unix
// time, in a tenth of the time of http.ParseTime. It leaves other forms, and what is out of
// range, to that.
func fixdate(s string) (int64, bool) {
	if len(s) != len(fixdateForm) || s[3:5] != ", " || s[7] != ' ' || s[11] != ' ' || s[16] != ' ' ||
		s[19] != ':' || s[22] != ':' || s[25:] != " GMT" {
		return 0, false
	}
	switch s[:3] {
	case "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat":
	default:
		return 0, false
	}
	month := monthOf(s[8:11])
	day, ok1 := pair(s[5:7])
	century, ok2 := pair(s[12:14])
	year, ok3 := pair(s[14:16])
	hour, ok4 := pair(s[17:19])
	minute, ok5 := pair(s[20:22])
	second, ok6 := pair(s[23:25])
	year += 100 * century
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || month == 0 || year == 0 ||
		day < 1 || day > 28 && day > lengthOf(month, year) || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	return (daysTo(year, month)+day-1)*86400 + hour*3600 + minute*60 + second, true
}

func monthOf(s string) int64 {
	switch s {
	case "Jan":
		return 1
	case "Feb":
		return 2
	case "Mar":
		return 3
	case "Apr":
		return 4
	case "May":
		return 5
	case "Jun":
		return 6
	case "Jul":
		return 7
	case "Aug":
		return 8
	case "Sep":
		return 9
	case "Oct":
		return 10
	case "Nov":
		return 11
	case "Dec":
		return 12
	}
	return 0
}

// lengthOf returns how many days a month has.
func lengthOf(month, year int64) int64 {
	if month == 12 {
		return 31
	}
	return daysTo(year, month+1) - daysTo(year, month)
}

// daysTo returns the days from the Unix epoch to the first of a month. Years are taken to begin
// in March, so that the leap day is their last, and months from then on have 30.6 days.
func daysTo(year, month int64) int64 {
	if month -= 3; month < 0 {
		month += 12
		year--
	}
	const toEpoch = 719468 // from March 1 of the year 0
	return 365*year + year/4 - year/100 + year/400 + (153*month+2)/5 - toEpoch
}

func pair(s string) (int64, bool) {
	tens, ones := s[0]-'0', s[1]-'0'
	return int64(tens)*10 + int64(ones), tens <= 9 && ones <= 9
}
