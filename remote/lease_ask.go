package remote

import (
	"context"
	"time"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// requestBlock takes a block of k units from the inner backend.
func (c *LeaseCache) requestBlock(
	set *leaseSet, demand *demand, l *lease, terms *leaseTerms,
	k int64, lasts time.Duration, resets int,
) {
	if lasts == 0 && c.settles {
		lasts = terms.chargeLasts // units that are not spent can then be returned
	}
	charges := []backends.Charge{
		{Scope: l.scope, Key: l.key, Limit: terms.tight, Cost: k, Lasts: lasts},
	}
	out := make([]limits.Decision, 1)
	ctx, cancel := context.WithTimeout(context.Background(), arith.Wait(terms.lease))
	defer cancel()
	sent, answered := c.now(), false
	defer func() { // even if the inner backend ends the goroutine
		set.mu.Lock()
		now, void := c.now(), false
		demand.requesting = false
		switch d := &out[0]; {
		case !answered:
			c.counters.failed.Add(1)
			l.notBefore.Store(now.mono + terms.lease)
		case d.Source != limits.SourcePrimary || !d.Allowed:
			c.counters.denied.Add(1)
			demand.remaining = d.Remaining
			l.notBefore.Store(now.mono + terms.lease/8)
		default:
			c.counters.taken.Add(1)
			c.counters.units.Add(k)
			l.notBefore.Store(now.mono)
			b := newBlock(terms, k, sent, now, d)
			void = demand.resets != resets || !c.holdLocked(set, l, b, terms, lasts, now)
			if !void {
				demand.remaining = d.Remaining
			}
		}
		l.remaining.Store(demand.remaining)
		set.mu.Unlock()
		if void {
			c.returnUnits(terms, l, k, out[0].Ticket, lasts)
		}
	}()
	answered = call.Take(ctx, c.inner, charges, out) == nil
}

// holdLocked adds a block to l. It returns false if the block is over already.
func (c *LeaseCache) holdLocked(
	set *leaseSet, l *lease, b *block, terms *leaseTerms, lasts time.Duration, now instant,
) bool {
	lasting := b.lasting(now)
	if lasting <= 0 {
		return false
	}
	b.timer = time.AfterFunc(arith.Wait(lasting), func() {
		set.mu.Lock()
		left := b.close()
		l.endUsedLocked(c.now())
		set.mu.Unlock()
		switch {
		case left == 0:
		case terms.isWindow && b.spendFor != terms.spendFor: // the window that counted them is over
			c.counters.void(left)
		default:
			c.returnUnits(terms, l, left, b.Ticket, lasts)
		}
	})
	if l.endUsedLocked(now); l.used.Load() == nil {
		l.used.Store(b)
	} else {
		l.next.Store(b)
	}
	return true
}

// returnUnits returns units of a block to the inner backend.
func (c *LeaseCache) returnUnits(
	terms *leaseTerms, l *lease, n, ticket int64, lasts time.Duration,
) {
	if !c.settles {
		c.counters.void(n)
		return
	}
	endings := []backends.Ending{{
		Scope: l.scope, Key: l.key, Limit: terms.tight, Taken: n, Ticket: ticket, Lasts: lasts,
	}}
	c.returns.Send(endings, func(_ int, s limits.Settlement) { c.counters.settled(n, s) })
}
