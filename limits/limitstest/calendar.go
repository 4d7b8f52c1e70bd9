package limitstest

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
)

func init() {
	register(algorithm{
		id: limits.AlgorithmCalendar, model: calendarModel{}, windows: true, aligned: true,
		limit: func(rate limits.Rate) limits.Limit { return limits.Calendar(rate.Units, limits.Day) },
		typical: []limits.Limit{
			limits.Calendar(1000, limits.Day),
			limits.Calendar(10_000, limits.Month.From(31)),
		},
		extreme: []limits.Limit{
			limits.Calendar(1_000_000_000, limits.Year.FromDate(time.February, 29)),
			limits.Calendar(1, limits.Day),
		},
		random: func(random *rand.Rand, rate limits.Rate, _ int64) limits.Limit {
			return limits.Calendar(rate.Units, randomPeriod(random))
		},
		withMaximum: func(l limits.Limit, most int64) limits.Limit {
			return limits.Calendar(most, l.Period())
		},
		alternating: []limits.Limit{limits.Calendar(5, limits.Day)},
		together: [4]limits.Decision{allowed(6, day, day), allowed(2, day, day), denied(2, day, day),
			allowed(0, day, day)},
	})
}

type calendarModel struct{ fixedModel }

// turned lets a period owe to the next one alone.
func (calendarModel) turned(u usage, x int64) usage {
	start := windowStart(x, u.limit)
	if start <= u.at {
		return u
	}
	next := usage{limit: u.limit, at: start}
	if windowEnd(u.at, u.limit) == start {
		next.curr = min(u.debt, u.limit.Burst())
	}
	return next
}

func (calendarModel) freshAt(u usage) int64 {
	switch {
	case u.debt > 0:
		return windowEnd(windowEnd(u.at, u.limit), u.limit)
	case u.curr > 0:
		return windowEnd(u.at, u.limit)
	}
	return u.at
}

// rebasedBy counts the units as taken now under l: a store knows only the calendar that is charged.
func (calendarModel) rebasedBy(u usage, l limits.Limit, now int64) usage {
	if u.rebased(now).at == u.at {
		return u.rebased(now)
	}
	length := windowEnd(u.at, u.limit) - u.at
	return change{units: u.inUse(u.at), at: now, until: now + length}.begin(l, now)
}

func (calendarModel) untilOne(l limits.Limit, now int64) int64 { return windowEnd(now, l) - now }

// randomPeriod returns any period of the calendar, in a zone whose data the program has.
func randomPeriod(random *rand.Rand) limits.Period {
	period := [...]limits.Period{
		limits.Day, limits.Week, limits.Month, limits.Year,
		limits.Week.From(1 + random.IntN(7)),
		limits.Month.From(1 + random.IntN(31)),
		limits.Year.FromDate(time.Month(1+random.IntN(12)), 1+random.IntN(28)),
	}[random.IntN(7)]
	zones := [...]string{"UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu",
		"Australia/Lord_Howe", "America/Sao_Paulo"}
	zoned := period.In(zones[random.IntN(len(zones))])
	if limits.Calendar(1, zoned).Validate() != nil {
		return period
	}
	return zoned
}

// The suite finds the periods of the calendar by walking: from day to day until a period begins,
// and from minute to minute until the clocks of the zone show that day.

// calendarStart returns the start of the period of l that contains x. It is a whole minute, since
// all zones have had offsets of whole minutes since 1972.
func calendarStart(x int64, l limits.Limit) int64 {
	day := civil(x, l).AddDate(0, 0, 1) // clocks may have shown tomorrow already
	for !begins(day, l) || firstMinute(day, l) > x {
		day = day.AddDate(0, 0, -1)
	}
	return max(0, firstMinute(day, l))
}

// calendarEnd returns the end of the period of l that contains x.
func calendarEnd(x int64, l limits.Limit) int64 {
	day := civil(x, l)
	for !begins(day, l) || firstMinute(day, l) <= x {
		day = day.AddDate(0, 0, 1)
	}
	return firstMinute(day, l)
}

// civil returns the day that the clocks of l's zone show at x, as a midnight of UTC.
func civil(x int64, l limits.Limit) time.Time {
	year, month, day := time.UnixMicro(x).In(zoneOf(l)).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// zoneOf returns the zone of l, which is legal.
func zoneOf(l limits.Limit) *time.Location {
	_, name, _ := strings.Cut(string(l.Period()), " in ")
	if zone, ok := zonesByName.Load(name); ok {
		return zone.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	zonesByName.Store(name, zone)
	return zone
}

var zonesByName sync.Map

// begins reports whether a period of l begins on a day.
func begins(day time.Time, l limits.Limit) bool {
	period, _, _ := strings.Cut(string(l.Period()), " in ")
	unit, from, _ := strings.Cut(period, " from ")
	switch unit {
	case "week":
		return strings.EqualFold(day.Weekday().String(), or(from, "monday"))
	case "month":
		return isDate(day, or(from, "1"))
	case "year":
		month, date, _ := strings.Cut(or(from, "january 1"), " ")
		return strings.EqualFold(day.Month().String(), month) && isDate(day, date)
	}
	return true
}

// isDate reports whether a day has the given number in its month, or is the last day of a shorter
// month.
func isDate(day time.Time, text string) bool {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return day.Day() == n || day.Day() < n && day.AddDate(0, 0, 1).Day() == 1
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// firstMinute returns the first minute at which the clocks of l's zone show a day or a later one.
func firstMinute(day time.Time, l limits.Limit) int64 {
	key := dayOf{day, zoneOf(l)}
	if x, ok := firstMinutes.Load(key); ok {
		return x.(int64)
	}
	x := day.Add(-27 * time.Hour)
	for civil(x.UnixMicro(), l).Before(day) {
		x = x.Add(time.Minute)
	}
	firstMinutes.Store(key, x.UnixMicro())
	return x.UnixMicro()
}

type dayOf struct {
	day  time.Time
	zone *time.Location
}

var firstMinutes sync.Map // of dayOf
