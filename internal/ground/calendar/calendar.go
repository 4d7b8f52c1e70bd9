// Package calendar computes when the periods of the calendar begin: days, weeks, months and years
// of a time zone.
//
// A period begins at the first instant at which the clocks of the zone show its first day or a
// later one. So a day may last 23 or 25 hours, and no day begins twice where clocks go back over
// midnight.
//
// An example. In Berlin clocks go forward on 29 March 2026 and back on 25 October 2026:
//
//	day of 29 March      from 28 March 23:00 UTC, for 23 hours
//	day of 25 October    from 24 October 22:00 UTC, for 25 hours
//	month from 31        begins on 31 March, then on 30 April: a shorter month on its last day
package calendar

import (
	"sync/atomic"
	"time"
)

// Calendar has the periods of one kind in one zone. Instants are in microseconds since the Unix
// epoch, and negative before it.
type Calendar struct {
	ID int64 // differs from that of every other Calendar

	kind
	zone *time.Location

	recent   [4]atomic.Pointer[Period] // recent results of At
	replaced atomic.Uint32             // how often At has replaced one
}

// Period is a period of the calendar.
type Period struct {
	Start, End int64 // Start ≤ instant < End
	Next       int64 // the end of the next period
}

// At returns the period that contains an instant.
func (c *Calendar) At(instant int64) Period {
	for i := range c.recent {
		if p := c.recent[i].Load(); p != nil && instant >= p.Start && instant < p.End {
			return *p
		}
	}
	n := c.number(instant)
	p := &Period{Start: c.start(n), End: c.start(n + 1)}
	p.Next = c.endOf(p.End)
	c.recent[c.replaced.Add(1)%uint32(len(c.recent))].Store(p)
	return *p
}

// Around returns the starts of five periods: the one before that of an instant, its own, and the
// next three.
func (c *Calendar) Around(instant int64) (starts [5]int64) {
	starts[1] = c.start(c.number(instant))
	starts[0] = c.start(c.number(starts[1] - 1))
	for i := 2; i < len(starts); i++ {
		starts[i] = c.endOf(starts[i-1])
	}
	return starts
}

// endOf returns the end of the period that contains an instant. It takes an instant and not a
// number: where a zone crosses the date line and skips a day, two numbers begin at one instant.
func (c *Calendar) endOf(instant int64) int64 { return c.start(c.number(instant) + 1) }

// number returns the number of the period that contains an instant.
func (c *Calendar) number(instant int64) int {
	n := c.numberOf(time.UnixMicro(instant).In(c.zone).Date())
	for c.start(n+1) <= instant { // the clocks have gone back over midnight
		n++
	}
	return n
}

// start returns the first instant of period n.
func (c *Calendar) start(n int) int64 {
	const longestAhead = 26 * time.Hour // no clock is further ahead of UTC
	midnight := c.first(n)              // read as UTC
	for t := midnight.Add(-longestAhead).In(c.zone); ; {
		_, ahead := t.Zone()
		_, end := t.ZoneBounds()            // until then clocks are ahead by as much
		if !end.IsZero() && !end.After(t) { // ZoneBounds errs on December 31 of far leap years
			end = t.Add(time.Hour)
		}
		at := midnight.Add(-time.Duration(ahead) * time.Second)
		if at.Before(t) {
			at = t
		}
		if end.IsZero() || at.Before(end) {
			return at.UnixMicro()
		}
		t = end
	}
}

// kind says which days make a period.
type kind struct {
	unit  string     // "day", "week", "month" or "year"
	month time.Month // in which a year begins

	// The first day. In a week 1 is Monday. In a shorter month it is the last day.
	day int
}

// numberOf returns the number of the period that contains a day.
func (k kind) numberOf(year int, month time.Month, day int) int {
	switch k.unit {
	case "month":
		n := 12*year + int(month) - 1
		if day < k.dayIn(year, month) {
			n--
		}
		return n
	case "year":
		if month < k.month || month == k.month && day < k.dayIn(year, month) {
			year--
		}
		return year
	}
	const secondsOfDay = 24 * 60 * 60
	// exact: it is midnight
	days := int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay)
	if k.unit == "week" {
		return floorDiv(days-k.firstMonday(), 7)
	}
	return days
}

// first returns the first day of period n.
func (k kind) first(n int) time.Time {
	year, month, day := 1970, time.January, 1
	switch k.unit {
	case "month":
		year, month = floorDiv(n, 12), time.Month(n-12*floorDiv(n, 12)+1)
		day = k.dayIn(year, month)
	case "year":
		year, month, day = n, k.month, k.dayIn(n, k.month)
	case "week":
		day += 7*n + k.firstMonday()
	default:
		day += n
	}
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// firstMonday returns the first day of a week, counted in days since 1970-01-01, which was a
// Thursday.
func (k kind) firstMonday() int { return k.day - int(time.Thursday) }

// dayIn returns the day of a month on which a period begins.
func (k kind) dayIn(year int, month time.Month) int {
	return min(k.day, time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day())
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
