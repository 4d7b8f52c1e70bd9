package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"
)

const (
	sourceRefused = "refused connection"

	// restartTime is for how long a server that restarts may refuse connections.
	restartTime = 10 * time.Second

	wsaRefused = syscall.Errno(10061) // ECONNREFUSED of Windows
)

// isRefused reports whether err says that nothing listens, so that nothing was sent.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused)
}

// refused ends an attempt whose connection was refused, if err says so. It reports whether c is to
// be sent again.
func (p *pacer) refused(ctx context.Context, c *call, err error) (again bool) {
	if p.o.Dialect != Standard || !isRefused(err) {
		return false
	}
	leeway := p.leewayOf(ctx, c)
	p.mu.Lock()
	b, now := c.bucket, p.now()
	b.answer(c.ticket)
	b.flight.busy--
	c.stage = idle
	wait := b.refuse(c.ticket, now)
	again = wait > 0 && p.o.Attempts > 1 && c.rewinds && wait <= leeway.most
	b.queue.wakeFirst()
	p.mu.Unlock()
	c.status = 0
	c.endLimit()
	if again {
		p.tell(c, Event{Kind: Repeated, Wait: wait, Source: sourceRefused})
		c.again = true
	}
	return again
}

// restart is what a pacer knows of a server that refuses connections. It may be restarting.
type restart struct {
	since    instant // 0: connections are not refused
	latest   instant
	refusals int
}

// refuse notes a refused connection. It forgets what the server has told, and holds the bucket back
// for 0.25, 0.5, 1 and 1 seconds and so on, and up to a half more at random. It returns that wait,
// or 0 if the server has never answered or has refused for restartTime.
func (b *bucket) refuse(tk ticket, now instant) time.Duration {
	r := &b.restart
	if r.since == 0 {
		if !b.opening.answered {
			return 0
		}
		b.reset()
		*r = restart{since: now}
	}
	if now-r.since >= restartTime {
		return 0
	}
	if r.refusals == 0 || tk.at > r.latest { // refusals of requests in flight together are one
		wait := min(250*time.Millisecond<<r.refusals, time.Second)
		r.refusals = min(r.refusals+1, 2)
		b.waits = waits{now + wait + rand.N(wait/2), sourceRefused}
	}
	r.latest = now
	return max(b.waits.until-now, 1)
}

// reset makes a bucket as new, except for requests in flight and the caps of the program.
func (b *bucket) reset() {
	b.flight.outdateAll()
	b.opening, b.waits, b.backoff = opening{took: b.opening.took}, waits{}, backoff{}
	b.told, b.refill, b.learned = told{}, refill{}, learned{}
}
