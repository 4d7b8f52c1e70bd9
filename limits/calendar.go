package limits

import (
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/calendar"
)

// Period is a period of the calendar, written as [Parse] reads it behind the slash: "month" or
// "month from 15 in Europe/Berlin". [Limit.Validate] reports a text that is not legal.
type Period string

// The periods of the calendar in UTC. A week begins on Monday, a month on its first day, a year on
// January 1.
const (
	Day   Period = "day"
	Week  Period = "week"
	Month Period = "month"
	Year  Period = "year"
)

// From returns p with another first day: 1 to 31 for a month, 1 (Monday) to 7 (Sunday) for a week.
// A shorter month begins on its last day. For a year, use [Period.FromDate].
func (p Period) From(day int) Period {
	start := strconv.Itoa(day)
	if strings.HasPrefix(string(p), string(Week)) && day >= 1 && day <= 7 {
		start = strings.ToLower(time.Weekday(day % 7).String())
	}
	return p.from(start)
}

// FromDate returns p, a year, with another first day. Without a February 29, a year from then
// begins on February 28.
func (p Period) FromDate(month time.Month, day int) Period {
	return p.from(strings.ToLower(month.String()) + " " + strconv.Itoa(day))
}

func (p Period) from(start string) Period {
	unit, _, zone := calendar.Split(string(p))
	return Period(calendar.Text(unit, start, zone))
}

// In returns p in a time zone of the IANA, such as "Europe/Berlin". The data of zones come from the
// system or, if the program imports it, from time/tzdata.
func (p Period) In(zone string) Period {
	unit, start, _ := calendar.Split(string(p))
	return Period(calendar.Text(unit, start, zone))
}

// validate reports a mistake in p.
func (p Period) validate() error {
	_, err := calendar.Of(string(p))
	return err
}

// parsePeriods reads "10000/month from 15 in Europe/Berlin". It cuts the zone off first: the names
// of zones have capital letters and slashes.
func parsePeriods(value string) (units int64, period Period, err error) {
	given, zone := strings.Fields(value), ""
	if n := len(given); n >= 2 && strings.EqualFold(given[n-2], "in") {
		given, zone = given[:n-2], given[n-1]
	}
	words := wordsOf(strings.Join(given, " "))
	count, unit, ok := splitRate(words[:min(3, len(words))])
	start, isFrom := strings.CutPrefix(strings.Join(words[min(3, len(words)):], " "), "from ")
	if !ok || !isFrom && start != "" {
		return 0, "", errForm
	}
	units, err = parseUnits(count)
	return units, Period(calendar.Text(unit, start, zone)), err
}
