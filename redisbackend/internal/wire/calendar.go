package wire

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/calendar"
)

// calendarClock is how far the clocks of the servers are ahead of this process, in microseconds.
// It stays 0 until a server has said that it is in another period.
type calendarClock struct{ ahead atomic.Int64 }

// now returns the given instant or, if that is 0, an estimate of the server's clock.
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

// learn reports whether err comes from a server whose clock is in none of the periods that it was
// sent. If so, the next periods will be around that clock.
func (c *calendarClock) learn(err error) bool {
	_, rest, found := strings.Cut(err.Error(), "WEIR asks again at ")
	digits, _, _ := strings.Cut(rest, ":")
	server, parseErr := strconv.ParseInt(digits, 10, 64)
	if !found || parseErr != nil || server <= 0 || server > maxNumber {
		return false
	}
	c.ahead.Store(server - time.Now().UnixMicro())
	return true
}

// withPeriods adds to e, of a calendar limit, the periods around an instant: see calendar.lua.
func withPeriods(e *Encoded, instant int64) *Encoded {
	c, _ := calendar.Of(string(e.limit.Period())) // the limit was validated
	starts := c.Around(instant)
	for i := range starts {
		starts[i] = max(0, starts[i]) // servers have no earlier instant
	}
	text := strings.Trim(fmt.Sprint(starts), "[]")
	e.text = fmt.Sprintf("%v~%s", e.text, text)
	e.takesOne = fmt.Sprintf("take %v=1", e.text)
	e.from, e.until = starts[1], starts[2]
	return e
}
