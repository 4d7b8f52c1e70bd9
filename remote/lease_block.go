package remote

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/arith"
	"github.com/weir-go/weir/limits"
)

// block is units that the inner backend has charged and this process may spend.
type block struct {
	units           atomic.Int64 // that are left; below 0: it is over
	size            int64
	sent            instant // when it was asked for
	answered        instant
	spendFor        int64 // after sent, microseconds
	timer           *time.Timer
	limits.Decision // on the block
}

// instant is a reading of both clocks, in microseconds. The monotonic one may stand still
// while a machine is suspended; the wall clock may step back. So what has passed is the
// longer of the two.
type instant struct{ mono, wall int64 }

func (c *LeaseCache) now() instant {
	now := time.Now()
	return instant{now.Sub(c.base).Microseconds(), now.UnixMicro()}
}

func (i instant) since(then instant) int64 {
	return max(i.mono-then.mono, i.wall-then.wall)
}

// newBlock returns a block of k units on which d was the decision.
func newBlock(terms *leaseTerms, k int64, sent, answered instant, d *limits.Decision) *block {
	b := &block{size: k, sent: sent, answered: answered, spendFor: terms.spendFor, Decision: *d}
	b.units.Store(k)
	at := time.UnixMicro(d.At)
	if _, end, ok := terms.limit.Window(at); ok { // no unit is spent beyond the window that counts it
		b.spendFor = min(b.spendFor, (end.Sub(at) - leaseSlack).Microseconds())
	}
	if terms.limit.Period() != "" { // what is stored may end sooner
		b.spendFor = min(b.spendFor, (d.EffectiveWindow - leaseSlack).Microseconds())
	}
	return b
}

// lasting returns for how long units of b may still be spent, in microseconds.
func (b *block) lasting(now instant) int64 { return b.spendFor - now.since(b.sent) }

// left returns how many units of b, which may be nil, may be spent now.
func (b *block) left(now instant) int64 {
	if b == nil || b.lasting(now) <= 0 {
		return 0
	}
	return max(0, b.units.Load())
}

// endsSoon reports whether it is time to ask for another block: of b, which may be nil, a
// quarter is left, or it ends soon.
func (b *block) endsSoon(terms *leaseTerms, now instant) bool {
	return b == nil || b.units.Load() <= b.size/4 || b.lasting(now) <= terms.lease/4
}

// spend spends n units, and reports whether b, which may be nil, has them.
func (b *block) spend(n int64, now instant) bool {
	if b == nil || now.mono < b.answered.mono || b.lasting(now) <= 0 {
		return false
	}
	for {
		units := b.units.Load()
		if units < n {
			return false
		}
		if b.units.CompareAndSwap(units, units-n) {
			return true
		}
	}
}

// giveBack returns n units that were spent or set aside. It reports false if b is over;
// they are void then.
func (b *block) giveBack(n int64) bool {
	for {
		units := b.units.Load()
		if units < 0 {
			return false
		}
		if b.units.CompareAndSwap(units, units+n) {
			return true
		}
	}
}

// close ends b and returns what is left of it.
func (b *block) close() int64 { return max(0, b.units.Swap(math.MinInt64)) }

// describe sets d to the decision on units of b that are spent now.
func (b *block) describe(d *limits.Decision, terms *leaseTerms, remaining int64, now instant) {
	passed := now.since(b.sent)
	*d = limits.Decision{
		Allowed: true, Source: limits.SourceLease, Remaining: remaining,
		ResetAfter: max(0, b.ResetAfter-arith.Wait(passed)), At: b.At + passed, Ticket: b.Ticket,
	}
	if terms.isWindow {
		d.EffectiveWindow = max(time.Microsecond, b.EffectiveWindow-arith.Wait(passed))
	} else {
		d.EffectiveWindow = terms.effectiveWindow(remaining)
	}
}
