package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// leaseSupply takes blocks from the inner backend, and returns what is left of them.
type leaseSupply struct {
	inner    backends.Backend
	returns  *endings.Backend
	settles  bool // inner can return units
	counters leaseCounters
	leaseClock
}

func (s *leaseSupply) init(inner backends.Backend) {
	s.inner, s.returns, s.settles = inner, endings.Of(inner), backends.CanSettle(inner)
	s.base = time.Now()
}

// leaseCounters counts blocks and their units. It does not count decisions.
type leaseCounters struct {
	taken, denied, failed   atomic.Int64
	units, returned, voided atomic.Int64
}

// request takes a block of k units from the inner backend.
func (s *leaseSupply) request(
	set *leaseSet, demand *demand, l *lease, terms *leaseTerms,
	k int64, lasts time.Duration, resets int,
) {
	if lasts == 0 && s.settles {
		lasts = terms.chargeLasts // units that are not spent can then be returned
	}
	charges := []backends.Charge{
		{Scope: l.scope, Key: l.key, Limit: terms.tight, Cost: k, Lasts: lasts},
	}
	out := make([]limits.Decision, 1)
	ctx, cancel := context.WithTimeout(context.Background(), arith.Wait(terms.lease))
	defer cancel()
	sent, answered := s.now(), false
	defer func() { // even if the inner backend ends the goroutine
		set.mu.Lock()
		now, void := s.now(), false
		demand.requesting = false
		switch d := &out[0]; {
		case !answered:
			s.counters.failed.Add(1)
			l.notBefore.Store(now.mono + terms.lease)
		case d.Source != limits.SourcePrimary || !d.Allowed:
			s.counters.denied.Add(1)
			demand.remaining = d.Remaining
			l.notBefore.Store(now.mono + terms.lease/8)
		default:
			s.counters.taken.Add(1)
			s.counters.units.Add(k)
			l.notBefore.Store(now.mono)
			b := newBlock(terms, k, sent, now, d)
			void = demand.resets != resets || !s.holdLocked(set, l, b, terms, lasts, now)
			if !void {
				demand.remaining = d.Remaining
			}
		}
		l.remaining.Store(demand.remaining)
		set.mu.Unlock()
		if void {
			s.returnUnits(terms, l, k, out[0].Ticket, lasts)
		}
	}()
	answered = call.Take(ctx, s.inner, charges, out) == nil
}

// holdLocked adds a block to l. It returns false if the block is over already.
func (s *leaseSupply) holdLocked(
	set *leaseSet, l *lease, b *block, terms *leaseTerms, lasts time.Duration, now instant,
) bool {
	lasting := b.lasting(now)
	if lasting <= 0 {
		return false
	}
	b.timer = time.AfterFunc(arith.Wait(lasting), func() {
		set.mu.Lock()
		left := b.close()
		l.endUsedLocked(s.now())
		set.mu.Unlock()
		switch {
		case left == 0:
		case terms.isWindow && b.spendFor != terms.spendFor: // the window that counted them is over
			s.counters.void(left)
		default:
			s.returnUnits(terms, l, left, b.Ticket, lasts)
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
func (s *leaseSupply) returnUnits(
	terms *leaseTerms, l *lease, n, ticket int64, lasts time.Duration,
) {
	if !s.settles {
		s.counters.void(n)
		return
	}
	unspent := []backends.Ending{{
		Scope: l.scope, Key: l.key, Limit: terms.tight, Taken: n, Ticket: ticket, Lasts: lasts,
	}}
	s.returns.Send(unspent, func(_ int, end limits.Settlement) { s.counters.settled(n, end) })
}

// putBack returns units that were set aside to their block. If the block is over, they are void.
func (s *leaseSupply) putBack(b *block, units int64) {
	if !b.giveBack(units) {
		s.counters.void(units)
	}
}

// sum returns the counts since n was made.
func (n *leaseCounters) sum() backends.LeaseCounts {
	return backends.LeaseCounts{
		BlocksTaken:  n.taken.Load(),
		BlocksDenied: n.denied.Load(),
		BlocksFailed: n.failed.Load(),

		UnitsTaken:    n.units.Load(),
		UnitsReturned: n.returned.Load(),
		UnitsVoid:     n.voided.Load(),
	}
}

// settled counts units whose return has ended with s: they were returned or are void.
func (n *leaseCounters) settled(units int64, s limits.Settlement) {
	returned := int64(0)
	if s.Err == nil {
		returned = min(units, s.Returned)
	}
	n.returned.Add(returned)
	n.void(units - returned)
}

func (n *leaseCounters) void(units int64) {
	if units > 0 {
		n.voided.Add(units)
	}
}
