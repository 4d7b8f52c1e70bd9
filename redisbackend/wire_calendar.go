package redisbackend

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/calendar"
)

// calendarClock is by how much the servers' clocks are known to be ahead of this process's, in microseconds: 0
// until one has said that the difference is a period of the calendar or more.
type calendarClock struct{ ahead atomic.Int64 }

// now returns the instant that scripts are given or, if that is 0, what the server's clock may say.
func (c *calendarClock) now(given int64) int64 {
	if given != 0 {
		return given
	}
	return time.Now().UnixMicro() + c.ahead.Load()
}

func (c *calendarClock) isWithin(from, until, given int64) bool {
	now := c.now(given)
	return now >= from && now < until
}

// learn reports whether err is of a server whose clock is in none of the periods that it was sent. It
// will be sent others.
func (c *calendarClock) learn(err error) bool {
	_, rest, found := strings.Cut(err.Error(), "WEIR asks again at ")
	digits, _, _ := strings.Cut(rest, ":")
	server, parseErr := strconv.ParseInt(digits, 10, 64)
	if !found || parseErr != nil || server <= 0 || server > never {
		return false
	}
	c.ahead.Store(server - time.Now().UnixMicro())
	return true
}

// withPeriods returns e, of a calendar limit, with the periods around an instant: see calendar.lua.
func withPeriods(e *encoded, instant int64) *encoded {
	c, err := calendar.Of(string(e.limit.Period()))
	if err != nil {
		panic(err) // the limit is legal
	}
	starts := c.Around(instant)
	for i := range starts {
		starts[i] = max(0, starts[i]) // no clock of a server shows an earlier instant
	}
	text := strings.Trim(fmt.Sprint(starts), "[]")
	e.text = fmt.Sprintf("%v~%s", e.text, text)
	e.takesOne = fmt.Sprintf("take %v=1", e.text)
	e.from, e.until = starts[1], starts[2]
	return e
}
