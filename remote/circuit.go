package remote

import (
	"sync"
	"time"
)

// status is what a breaker says of its circuit. It is never changed.
type status struct {
	open   bool
	since  time.Time
	opened int64
}

func (s *status) state() string {
	if s.open {
		return "open"
	}
	return "closed"
}

// Status returns "open" or "closed", since when, and how often the breaker has opened, for
// health checks and metrics. It takes no lock.
//
// It says what recent decisions have shown, and nothing about a server that none of them
// asked. Where keys are spread over several servers, the breaker stays closed while
// another server has decided well within the last minute; the log of the backend
// reports each server.
func (b *Breaker) Status() (state string, since time.Time, opened int64) {
	s := b.status.Load()
	return s.state(), s.since, s.opened
}

func (b *Breaker) isOpen() bool { return b.status.Load().open }

// circuit counts the decisions of the last ten tenths of its window. Open, it lets one probe through
// after a while; a probe that fails starts the while again.
type circuit struct {
	openFor time.Duration
	tenth   time.Duration

	mu           sync.Mutex
	turn         int // how often the circuit has opened or closed: what was begun before does not count
	probing      bool
	probeAt      time.Time
	newest       int64 // number of the latest tenth since the zero time
	failed       [10]int
	decided      [10]int
	row          int       // failures since the latest success, or since the window was without any
	rowSince     time.Time // the first of them
	failingSince time.Time // the first failure of the window
}

// enter returns the turn that a decision begins in, and false if it must not be made.
func (b *Breaker) enter(now time.Time) (turn int, ok bool) {
	c := &b.circuit
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.isOpen() {
		if c.probing || !now.After(c.probeAt) {
			return 0, false
		}
		c.probing = true
	}
	return c.turn, true
}

// leave counts a decision that was begun in a turn, or its failure.
func (b *Breaker) leave(turn int, failure error) {
	c, now := &b.circuit, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if turn != c.turn {
		return
	}
	isProbe := b.isOpen()
	if c.probing = false; failure == errUncounted {
		return
	}
	b.log.decided(failure, max(time.Second, b.budget))
	switch {
	case isProbe && failure == nil:
		b.changeLocked(false, now, nil)
	case isProbe:
		c.probeAt = now.Add(c.openFor)
	case c.count(now, failure == nil) && c.keepsFailing(now, b.budget):
		c.probeAt = now.Add(c.openFor)
		b.changeLocked(true, now, failure)
	}
}

// count counts a decision, and reports whether it has failed.
func (c *circuit) count(now time.Time, decided bool) (failed bool) {
	tenth, n := now.UnixNano()/int64(c.tenth), int64(len(c.failed))
	for i := max(c.newest, tenth-n) + 1; i <= tenth; i++ {
		c.failed[i%n], c.decided[i%n] = 0, 0
	}
	c.newest = max(c.newest, tenth)
	at := c.newest % n
	if decided {
		c.decided[at]++
		c.row = 0
		return false
	}
	if sum(c.failed) == 0 {
		c.row, c.failingSince = 0, now
	}
	if c.row == 0 {
		c.rowSince = now
	}
	c.row++
	c.failed[at]++
	return true
}

// keepsFailing reports whether to open. Failures must go on for a while: one slow command delays every
// call under way, and these fail together.
func (c *circuit) keepsFailing(now time.Time, budget time.Duration) bool {
	failed := sum(c.failed)
	return min(c.row, failed) >= 5 && now.Sub(c.rowSince) >= 4*budget ||
		failed >= max(10, sum(c.decided)) && now.Sub(c.failingSince) >= 20*budget
}

func sum(of [10]int) (n int) {
	for _, m := range of {
		n += m
	}
	return n
}

// changeLocked opens or closes the circuit, and publishes and logs that.
func (b *Breaker) changeLocked(open bool, now time.Time, failure error) {
	c, was := &b.circuit, b.status.Load()
	c.turn++
	c.failed, c.decided, c.row = [10]int{}, [10]int{}, 0
	is := &status{open, now, was.opened}
	if open {
		is.opened++
	}
	b.status.Store(is)
	b.log.changed(open, failure, now.Sub(was.since))
}
