package client

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"time"
)

const (
	sourceRefused = "refused connection"

	// A server that restarts refuses connections for as long as it takes, ten seconds at most.
	restartTime = 10 * time.Second

	wsaRefused = syscall.Errno(10061) // what Windows calls ECONNREFUSED
)

// isRefused reports whether err says that nobody listens: nothing has been sent.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// refused notes that c has no answer. If that is since its connection was refused, it reports
// whether c is to be sent again.
func (p *pacer) refused(c *call, err error) (again bool) {
	if p.dialect != Standard || !isRefused(err) {
		return false
	}
	leeway := p.leeway(c.request.Context(), c)
	p.mu.Lock()
	b, now := c.bucket, p.now()
	b.answer(c.ticket)
	b.flight.busy--
	c.stage = idle
	wait := b.refuse(c.ticket, now)
	again = wait > 0 && p.attempts > 1 && c.rewinds && wait <= leeway.most
	b.queue.wakeFirst()
	p.mu.Unlock()
	c.status = 0
	c.over()
	if again {
		p.tell(c, Event{Kind: Repeated, Wait: wait, Source: sourceRefused})
		c.again = true
	}
	return again
}

// restart is what has been seen of a server that refuses connections, since it restarts perhaps.
type restart struct {
	since    instant // 0: connections are not refused
	latest   instant
	refusals int
}

// refuse forgets what is known of a server that restarts, and holds its bucket back for a
// while. It returns 0 if the server has never answered, or refuses for too long.
func (b *bucket) refuse(tk ticket, now instant) time.Duration {
	r := &b.restart
	if r.since == 0 {
		if !b.opening.answered {
			return 0
		}
		b.forget()
		*r = restart{since: now}
	}
	if now-r.since >= restartTime {
		return 0
	}
	if r.refusals == 0 || tk.at > r.latest { // those that are refused together are one
		wait := min(250*time.Millisecond<<r.refusals, time.Second)
		r.refusals = min(r.refusals+1, 2)
		b.waits = waits{now + wait + rand.N(wait/2), sourceRefused}
	}
	r.latest = now
	return max(b.waits.until-now, 1)
}

// forget makes a bucket as new, except for what is under way and the program's own limits.
func (b *bucket) forget() {
	b.flight.epoch = b.flight.sent + 1
	b.opening, b.waits, b.backoff = opening{took: b.opening.took}, waits{}, backoff{}
	b.told, b.refill, b.learned = told{}, refill{}, learned{}
}
