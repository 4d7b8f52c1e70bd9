package shed

import (
	"sync"
	"sync/atomic"
	"time"
)

// clientTime is for how long a request has waited for its client: for content that it reads, or until what it writes
// has left. The client decides that, so it says nothing of the service. It is safe for concurrent use.
type clientTime struct {
	any   atomic.Bool // it ever waited; until then no call takes the lock
	mu    sync.Mutex
	waits int32         // under way
	since instant       // when the first of them began
	total time.Duration // before
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

// until returns the time until now, and whether the request waits now.
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

// listener is a Permit as what a gate puts around the writer and the content of a request sees it.
type listener Permit

func (l *listener) Stream() { (*Permit)(l).Stream() }
func (l *listener) Wait()   { l.client.begin(l.limiter.now()) }
func (l *listener) Resume() { l.client.end(l.limiter.now()) }
