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

// refused notes that c has no answer. If that is since its connection was refused, it reports whether c is to be sent
// again.
func (p *pacer) refused(c *call, err error) (again bool) {
	if p.dialect != Standard || !isRefused(err) {
		return false
	}
	p.mu.Lock()
	b, now := c.bucket, p.now()
	b.answer(c.ticket)
	b.busy--
	c.stage = idle
	wait := b.refuse(c.ticket, now)
	again = wait > 0 && p.attempts > 1 && c.rewinds && p.allows(c.request.Context(), c, wait) == ""
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

// refuse forgets what is known of a server that restarts, and holds its bucket back for a
// while. It returns 0 if the server has never answered, or refuses for too long.
func (b *bucket) refuse(tk ticket, now instant) time.Duration {
	if b.away == 0 {
		if !b.known {
			return 0
		}
		b.forget()
		b.away = now
	}
	if now-b.away >= restartTime {
		return 0
	}
	if b.refusals == 0 || tk.at > b.refusedAt { // those that are refused together are one
		wait := min(250*time.Millisecond<<b.refusals, time.Second)
		b.refusals = min(b.refusals+1, 2)
		b.block, b.blockSource = now+wait+rand.N(wait/2), sourceRefused
	}
	b.refusedAt = now
	return max(b.block-now, 1)
}

// forget makes a bucket as new, but for what is under way and the program's own limits.
func (b *bucket) forget() {
	b.known, b.probing, b.epoch = false, false, b.sent+1
	b.block, b.strikes, b.lastWait = 0, 0, 0
	b.limited, b.left, b.limit = false, 0, 0
	b.spreadUntil, b.followUntil, b.sharedUntil, b.rampUntil = 0, 0, 0, 0
	b.refill, b.promise, b.learned, b.counted, b.refusals = refill{}, promise{}, learned{}, false, 0
	b.release, b.renewal, b.doubt, b.ending = release{}, renewal{}, doubt{}, ending{}
}
