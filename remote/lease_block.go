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
	units           atomic.Int64 // left; negative: the block is over
	size            int64
	sent            instant // when it was requested
	answered        instant
	spendFor        int64 // how long after sent, in microseconds
	timer           *time.Timer
	limits.Decision // of the inner backend
}

// instant is a reading of both clocks, in microseconds. The monotonic one may stand still while a
// machine is suspended, and the wall clock may step back. So the longer of the two times has
// passed.
type instant struct{ mono, wall int64 }

// leaseClock reads both clocks.
type leaseClock struct{ base time.Time }

func (c *leaseClock) now() instant {
	now := time.Now()
	return instant{now.Sub(c.base).Microseconds(), now.UnixMicro()}
}

func (i instant) since(then instant) int64 {
	return max(i.mono-then.mono, i.wall-then.wall)
}

// newBlock returns a block of k units that the inner backend decided with d.
func newBlock(terms *leaseTerms, k int64, sent, answered instant, d *limits.Decision) *block {
	b := &block{size: k, sent: sent, answered: answered, spendFor: terms.spendFor, Decision: *d}
	b.units.Store(k)
	at := time.UnixMicro(d.At)
	if _, end, ok := terms.limit.Window(at); ok { // units are spent in the window that counts them
		b.spendFor = min(b.spendFor, (end.Sub(at) - leaseSlack).Microseconds())
	}
	if terms.limit.Period() != "" { // a stored period may end sooner
		b.spendFor = min(b.spendFor, (d.EffectiveWindow - leaseSlack).Microseconds())
	}
	return b
}

// lasting returns for how many more microseconds units of b may be spent.
func (b *block) lasting(now instant) int64 { return b.spendFor - now.since(b.sent) }

// left returns how many units of b may be spent now. b may be nil.
func (b *block) left(now instant) int64 {
	if b == nil || b.lasting(now) <= 0 {
		return 0
	}
	return max(0, b.units.Load())
}

// endsSoon reports whether it is time to request another block: a quarter of b is left, in units
// or in time. b may be nil.
func (b *block) endsSoon(terms *leaseTerms, now instant) bool {
	return b == nil || b.units.Load() <= b.size/4 || b.lasting(now) <= terms.lease/4
}

// spend spends n units. It returns false if b, which may be nil, has fewer.
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

// giveBack returns n units that were spent or set aside. It returns false if b is over: they are
// void.
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

// close ends b and returns the units that are left.
func (b *block) close() int64 { return max(0, b.units.Swap(math.MinInt64)) }

// describe sets d to the decision on a charge that is spent now.
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
