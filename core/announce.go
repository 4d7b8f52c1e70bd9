package core

import "time"

// Announcer carries denials between the denial caches of several processes, so that a key
// that one of them has seen denied is denied by all without a question. See
// [DenialCacheOptions]. Package redisbackend has one.
type Announcer interface {
	// Announce tells the other processes of a. It does not wait, and may drop a: the others
	// then ask the backend themselves.
	Announce(a Announcement)

	// Listen has heard called with what other processes announce, one call at a time. What
	// this process announces is not heard here.
	Listen(heard func(Announcement))
}

// Announcement is a denial that one process tells others of.
type Announcement struct {
	Scope, Key string
	Limit      Limit
	Cost       int64

	// Asked is when the question was sent, on the clock of this process: the waits of
	// Decision count from then.
	Asked    time.Time
	Decision Decision
}

// until returns when the denial ends.
func (a *Announcement) until() time.Time { return a.Asked.Add(a.Decision.RetryAfter) }

// leastAnnounced is the least wait that is announced: a shorter one is nearly over when the
// others hear of it.
const leastAnnounced = time.Second

// announcing is what a denial cache announces.
//
// Where the inner backend is in this process, nobody else can ask it, and the other
// caches believe a denial for MaxAge at most. So it is announced again every half of
// MaxAge for as long as it lasts, and no longer once the backend has lifted it.
type announcing struct {
	to      Announcer
	repeats *repeats // nil: nothing is announced again
}

// announce tells other processes of the denial of ch, asked for at the instant sent.
func (c *DenialCache) announce(ch *Charge, d *Decision, sent int64) {
	if c.announcing == nil || d.RetryAfter < leastAnnounced || d.RetryAfter == Never {
		return
	}
	c.announcing.to.Announce(Announcement{ch.Scope, ch.Key, ch.Limit, ch.Cost, c.instant(sent), *d})
	if c.announcing.repeats != nil && wait(c.maxAge) < d.RetryAfter {
		c.repeatLater(announced{ch.Scope, ch.Key, ch.Limit, ch.Cost})
	}
}

// instant returns the time of an instant of the cache.
func (c *DenialCache) instant(us int64) time.Time { return c.base.Add(wait(us)) }

// hear remembers a denial that another process has announced.
func (c *DenialCache) hear(a Announcement) {
	ch := Charge{Scope: a.Scope, Key: a.Key, Limit: a.Limit, Cost: a.Cost}
	d, now := a.Decision, time.Now()
	if d.Allowed || d.Transient || d.RetryAfter == Never || !a.until().After(now) ||
		ch.Limit.Validate() != nil || !cacheable([]Charge{ch}, 0) || c.mayBeLifted(&ch) {
		return
	}
	if c.leases != nil && c.leases.mayHold(&ch) {
		return // this process need not ask
	}
	if a.Asked.After(now) { // nothing that was asked later than now replaces an answer
		a.Asked = now
	}
	c.remember(&ch, &d, a.Asked.Sub(c.base).Microseconds())
}
