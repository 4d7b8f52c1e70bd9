package limitstest

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/limits"
)

// This file finds the periods of the calendar by walking: from day to day until a period begins,
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
