package shed

import (
	"sync"
	"sync/atomic"
	"time"
)

// clientTime measures how long a request waits for its client: for content that it reads, or until
// an answer has left. The service has no part in that time. It is safe for concurrent use.
type clientTime struct {
	any   atomic.Bool // the request has ever waited; until then no call takes the lock
	mu    sync.Mutex
	waits int32         // that have begun and not ended
	since instant       // when the first of them began
	total time.Duration // of the waits before
}

func (c *clientTime) begin(now instant) {
	c.any.Store(true)
	c.mu.Lock()
	if c.waits++; c.waits == 1 {
		c.since = now
	}
	c.mu.Unlock()
}

func (c *clientTime) end(now instant) {
	c.mu.Lock()
	if c.waits--; c.waits == 0 {
		c.total += max(0, now-c.since)
	}
	c.mu.Unlock()
}

// until returns how long the request has waited, and whether it waits now.
func (c *clientTime) until(now instant) (total time.Duration, waits bool) {
	if !c.any.Load() {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waits > 0 {
		return c.total + max(0, now-c.since), true
	}
	return c.total, false
}
