package remote

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

const (
	maxCalls   = 1024 // on goroutines of their own, with abandoned ones
	probeCalls = 128  // of these, for an open breaker: calls that hang must not prevent probes
)

// pendingCall is a call of the inner backend on a goroutine of its own. It has all memory that
// this goroutine may write to; of the caller's it reads strings and the context. It returns to the
// pool when both goroutines are done with it.
type pendingCall struct {
	b       *Breaker
	ctx     context.Context
	peeks   bool
	charges []backends.Charge
	out     []limits.Decision
	err     error

	over     atomic.Bool   // answered or abandoned
	answered chan struct{} // of capacity 1
	timer    *time.Timer
	run      func() // c.work: a method value made once, so that go statements allocate nothing
}

func newPendingCall(b *Breaker) *pendingCall {
	c := &pendingCall{b: b, answered: make(chan struct{}, 1), timer: time.NewTimer(b.budget)}
	c.run = c.work
	return c
}

// askOnGoroutine calls the inner backend on a goroutine of its own. It abandons the call when the
// budget or ctx ends.
func (b *Breaker) askOnGoroutine(
	ctx context.Context, peeks bool, charges []backends.Charge, out []limits.Decision,
) (err error) {
	maxUnderWay := int64(maxCalls)
	if !b.circuit.isOpen() {
		maxUnderWay -= probeCalls
	}
	if b.underWay.Add(1) > maxUnderWay {
		b.underWay.Add(-1)
		return ErrBusy
	}
	c := b.pending.Get().(*pendingCall)
	c.ctx, c.peeks = ctx, peeks
	c.charges = append(c.charges, charges...)
	c.out = append(c.out, make([]limits.Decision, len(out))...)
	c.over.Store(false)
	c.timer.Reset(b.budget)
	go c.run()

	select {
	case <-c.answered:
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.timer.C:
		err = ErrBudget
	}
	if err != nil {
		if c.over.CompareAndSwap(false, true) {
			b.abandoned.Add(1)
			return err
		}
		<-c.answered // at the same moment
	}
	if err = c.err; err == nil {
		copy(out, c.out)
	}
	c.recycle()
	return err
}

// work calls the inner backend, on the goroutine of the call.
func (c *pendingCall) work() {
	defer c.end()
	c.err = errExited // unless askInner returns
	c.err = askInner(c.ctx, c.b.inner, c.peeks, c.charges, c.out)
}

// end hands the answer to the caller. If the caller has left, it returns the units.
func (c *pendingCall) end() {
	b := c.b
	if c.over.CompareAndSwap(false, true) {
		b.underWay.Add(-1)
		c.answered <- struct{}{}
		return
	}
	if c.err == nil && !c.peeks {
		b.discard(c.ctx, c.charges, c.out)
	}
	b.abandoned.Add(-1)
	b.underWay.Add(-1)
	c.recycle()
}

func (c *pendingCall) recycle() {
	c.timer.Stop()
	clear(c.charges)
	c.ctx, c.charges, c.out, c.err = nil, c.charges[:0], c.out[:0], nil
	c.b.pending.Put(c)
}

// discard returns the units of charges that can be ended: those with Lasts, and those of
// concurrency limits.
func (b *Breaker) discard(
	ctx context.Context, charges []backends.Charge, decisions []limits.Decision,
) {
	var endings []backends.Ending
	for i := range charges {
		ch, d := &charges[i], &decisions[i]
		if !ch.Shadow && (!d.Allowed || d.Source == limits.SourceNotAsked) {
			return // denied: nothing was taken
		}
		canEnd := ch.Lasts > 0 || algorithm.Of(ch.Limit.Algorithm()).Held
		if d.Allowed && ch.Cost > 0 && canEnd {
			endings = append(endings, call.ReturnOf(ch, d))
		}
	}
	if len(endings) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	defer func() { _ = recover() }() // the inner backend may panic, and no caller is left
	_ = backends.Settle(ctx, b.inner, endings, make([]limits.Settlement, len(endings)))
}
