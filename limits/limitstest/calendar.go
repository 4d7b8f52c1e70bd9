package limitstest

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
)

// The periods of the calendar, by walking it: from day to day, until one is the first of a period, and
// from minute to minute, until the clocks of the zone show it.

// calendarStart is the start of the period of l that x is in, and calendarEnd its end. They are whole minutes,
// as the offsets of all zones are since 1972.
func calendarStart(x int64, l limits.Limit) int64 {
	day := civil(x, l).AddDate(0, 0, 1) // clocks may have shown it already
	for !begins(day, l) || firstMinute(day, l) > x {
		day = day.AddDate(0, 0, -1)
	}
	return max(0, firstMinute(day, l))
}

func calendarEnd(x int64, l limits.Limit) int64 {
	day := civil(x, l)
	for !begins(day, l) || firstMinute(day, l) <= x {
		day = day.AddDate(0, 0, 1)
	}
	return firstMinute(day, l)
}

// civil is the day that the clocks of l's zone show, as midnight of UTC.
func civil(x int64, l limits.Limit) time.Time {
	year, month, day := time.UnixMicro(x).In(zoneOf(l)).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// zoneOf is the zone of l, which is legal.
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

// begins reports whether a period begins on a day.
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

// isDate reports whether a day has a number in its month, or is the last day of one that ends before.
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

// firstMinute is the first minute at which the clocks of l's zone show a day, or a later one.
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
