package conform

import (
	"math"
	"net/http"
	"sync"
	"time"
)

// clock is what the Date fields of a server tell of its clock. Some servers write a Date that is up to a
// second old: their clock then seems to be behind.
type clock struct {
	mu          sync.Mutex
	known       bool
	least, most time.Duration // by which it is ahead of ours
}

// read takes the Date of an answer into account.
func (c *clock) read(x *exchange) {
	date, err := http.ParseTime(x.header.Get("Date"))
	if err != nil {
		return
	}
	// The server wrote it between sending and answer, and cut it to a second.
	least, most := date.Sub(x.answered), date.Add(time.Second).Sub(x.sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.known, c.least, c.most = true, math.MinInt64, math.MaxInt64
	}
	c.least, c.most = max(c.least, least), min(c.most, most)
}

// ahead returns by how much the clock is ahead of ours at least. differs reports whether it surely is
// another.
func (c *clock) ahead() (least time.Duration, known, differs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.least, c.known, c.known && (c.least > clockGrain || c.most < -clockGrain)
}

// difference returns by how much the clock differs, for a report.
func (c *clock) difference() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.known:
		return "unknown"
	case c.least > 0:
		return seconds(c.least) + " ahead"
	}
	return "up to " + seconds(-c.least) + " behind"
}
