package remote

import (
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/bounds"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// leastAnnounced is the least wait that is announced: a shorter one is nearly over when the
// others hear of it.
const leastAnnounced = time.Second

// announce tells other processes of the denial of ch, asked for at the instant sent.
func (c *DenialCache) announce(ch *backends.Charge, d *limits.Decision, sent int64) {
	if c.announcer == nil || d.RetryAfter < leastAnnounced || d.RetryAfter == limits.Never {
		return
	}
	asked := c.base.Add(arith.Wait(sent))
	c.announcer.Announce(backends.Announcement{
		Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Cost: ch.Cost, Asked: asked, Decision: *d,
	})
}

// hear remembers a denial that another process has announced, if its limit can cause it.
func (c *DenialCache) hear(a backends.Announcement) {
	ch := backends.Charge{Scope: a.Scope, Key: a.Key, Limit: a.Limit, Cost: a.Cost}
	if a.Decision.Allowed || a.Decision.Transient || ch.Limit.Validate() != nil || !cacheable([]backends.Charge{ch}, 0) {
		return
	}
	now := time.Now()
	if a.Asked.After(now) { // nothing that was asked later than now replaces an answer
		a.Asked = now
	}
	d, possible := bounded(&a)
	if !possible || !a.Asked.Add(a.Decision.RetryAfter).After(now) || c.mayBeLifted(&ch) {
		return
	}
	if c.leases != nil && c.leases.mayHold(&ch) {
		return // this process need not ask
	}
	c.rememberHeard(&ch, &d, a.Asked.Sub(c.base).Microseconds())
}

// bounded returns the denial of a within the bounds of its limit, whoever has announced
// it, on the clock of this process. It is not possible if the limit never asks for such a
// wait, or never allows such a cost. A charge has the same limit if the denial answers it,
// so these are the bounds of this program's own.
func bounded(a *backends.Announcement) (d limits.Decision, possible bool) {
	longest := longestWait(a.Limit)
	if a.Decision.RetryAfter > longest || a.Cost > a.Limit.Burst() && !algorithm.Of(a.Limit.Algorithm()).Bans {
		return d, false
	}
	return limits.Decision{
		Remaining:       max(0, min(a.Decision.Remaining, a.Cost-1)), // more, and it were allowed
		RetryAfter:      a.Decision.RetryAfter,
		ResetAfter:      max(0, min(a.Decision.ResetAfter, longest)),
		EffectiveWindow: a.Decision.RetryAfter,
		At:              a.Asked.UnixMicro(),
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
