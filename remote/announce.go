package remote

import (
	"time"

	"github.com/weir-go/weir/internal/algorithm"
	"github.com/weir-go/weir/internal/arith"
	"github.com/weir-go/weir/internal/bounds"
	"github.com/weir-go/weir/limits"
)

// leastAnnounced is the least wait that is announced: a shorter one is nearly over when the
// others hear of it.
const leastAnnounced = time.Second

// announcing is what a denial cache announces.
//
// Where the inner backend is in this process, nobody else can ask it, and the other
// caches believe a denial for MaxAge at most. So it is announced again about every half of
// MaxAge for as long as it lasts, and no longer once the backend has lifted it.
type announcing struct {
	to      limits.Announcer
	repeats *repeats // nil: nothing is announced again
}

// announce tells other processes of the denial of ch, asked for at the instant sent.
func (c *DenialCache) announce(ch *limits.Charge, d *limits.Decision, sent int64) {
	if c.announcing == nil || d.RetryAfter < leastAnnounced || d.RetryAfter == limits.Never {
		return
	}
	c.announcing.to.Announce(limits.Announcement{Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Cost: ch.Cost, Asked: c.instant(sent), Decision: *d})
	if c.announcing.repeats != nil && arith.Wait(c.maxAge) < d.RetryAfter {
		c.repeatLater(announced{ch.Scope, ch.Key, ch.Limit, ch.Cost})
	}
}

// instant returns the time of an instant of the cache.
func (c *DenialCache) instant(us int64) time.Time { return c.base.Add(arith.Wait(us)) }

// hear remembers a denial that another process has announced, if its limit can cause it.
func (c *DenialCache) hear(a limits.Announcement) {
	ch := limits.Charge{Scope: a.Scope, Key: a.Key, Limit: a.Limit, Cost: a.Cost}
	if a.Decision.Allowed || a.Decision.Transient || ch.Limit.Validate() != nil || !cacheable([]limits.Charge{ch}, 0) {
		return
	}
	d, possible := bounded(&a)
	now := time.Now()
	if !possible || !a.Asked.Add(a.Decision.RetryAfter).After(now) || c.mayBeLifted(&ch) {
		return
	}
	if c.leases != nil && c.leases.mayHold(&ch) {
		return // this process need not ask
	}
	if a.Asked.After(now) { // nothing that was asked later than now replaces an answer
		a.Asked = now
	}
	c.rememberHeard(&ch, &d, a.Asked.Sub(c.base).Microseconds())
}

// leastStrangeClock is how far the clock of a backend is off when its instants are not
// believed. The clocks of servers differ by less.
const leastStrangeClock = 24 * time.Hour

// bounded returns the denial of a within the bounds of its limit, whoever has announced
// it. It is not possible if the limit never asks for such a wait, or never allows such a
// cost. A charge has the same limit if the denial answers it, so these are the bounds of
// this program's own.
func bounded(a *limits.Announcement) (d limits.Decision, possible bool) {
	longest := longestWait(a.Limit)
	if a.Decision.RetryAfter > longest || a.Cost > a.Limit.Burst() && !algorithm.Of(a.Limit.Algorithm()).Bans {
		return d, false
	}
	at := a.Decision.At
	if off := time.UnixMicro(at).Sub(a.Asked); off.Abs() > leastStrangeClock {
		at = a.Asked.UnixMicro()
	}
	return limits.Decision{
		Remaining:       max(0, min(a.Decision.Remaining, a.Cost-1)), // more, and it were allowed
		RetryAfter:      a.Decision.RetryAfter,
		ResetAfter:      max(0, min(a.Decision.ResetAfter, longest)),
		EffectiveWindow: a.Decision.RetryAfter,
		At:              at,
	}, true
}

// longestWait returns the longest wait of a denial, and of its reset. A debt is as large as what is
// allowed at once, a window counts in the next, and a clock that has stepped back makes waits
// longer by a period at most. Only a limit that was lowered far below a debt asks for more.
func longestWait(limit limits.Limit) time.Duration {
	rate := limit.Rate()
	full := arith.MuldivCeil(limit.Burst(), rate.Period.Microseconds(), rate.Units) // a period, but for a bucket
	return arith.Wait(min(2*full, bounds.BucketFill)) + limit.Lasting() + max(rate.Period, time.Second)
}
