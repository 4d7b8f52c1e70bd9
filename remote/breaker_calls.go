package remote

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

var errExited = errors.New("remote: the backend called runtime.Goexit instead of answering")

const (
	maxCalls   = 1024 // on goroutines of their own, with abandoned ones
	probeCalls = 128  // of these, for an open breaker: calls that hang must not prevent probes
)

// deadlineHonourer is a backend that knows whether it honours deadlines: see [Breaker].
type deadlineHonourer interface {
	HonoursDeadline() bool
}

// breakerCalls calls the inner backend and waits no longer than the budget. It owns the calls on
// goroutines of their own.
type breakerCalls struct {
	inner           backends.Backend
	budget          time.Duration
	honoursDeadline bool // inner does

	pending   sync.Pool    // of *pendingCall
	underWay  atomic.Int64 // calls on goroutines of their own
	abandoned atomic.Int64 // of these, calls without a caller
}

func (c *breakerCalls) init(inner backends.Backend, budget time.Duration) {
	c.inner, c.budget = inner, budget
	if h, ok := inner.(deadlineHonourer); ok {
		c.honoursDeadline = h.HonoursDeadline()
	}
	c.pending.New = func() any { return newPendingCall(c) }
}

// ask calls the inner backend and waits no longer than the budget. probes says that the call is a
// probe.
func (c *breakerCalls) ask(
	ctx context.Context, probes, peeks bool, charges []backends.Charge, out []limits.Decision,
) error {
	if !c.honoursDeadline {
		return c.askOnGoroutine(ctx, probes, peeks, charges, out)
	}
	deadline := time.Now().Add(c.budget)
	if own, ok := ctx.Deadline(); !ok || deadline.Before(own) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	err := askInner(ctx, c.inner, peeks, charges, out)
	if err != nil && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", ErrBudget, err)
	}
	return err
}

func askInner(
	ctx context.Context, inner backends.Backend, peeks bool,
	charges []backends.Charge, out []limits.Decision,
) error {
	if peeks {
		return call.Peek(ctx, inner, charges, out)
	}
	return call.Take(ctx, inner, charges, out)
}

// askOnGoroutine calls the inner backend on a goroutine of its own. It abandons the call when the
// budget or ctx ends.
func (c *breakerCalls) askOnGoroutine(
	ctx context.Context, probes, peeks bool, charges []backends.Charge, out []limits.Decision,
) (err error) {
	maxUnderWay := int64(maxCalls)
	if !probes {
		maxUnderWay -= probeCalls
	}
	if c.underWay.Add(1) > maxUnderWay {
		c.underWay.Add(-1)
		return ErrBusy
	}
	p := c.pending.Get().(*pendingCall)
	p.ctx, p.peeks = ctx, peeks
	p.charges = append(p.charges, charges...)
	p.out = append(p.out, make([]limits.Decision, len(out))...)
	p.over.Store(false)
	p.timer.Reset(c.budget)
	go p.run()

	select {
	case <-p.answered:
	case <-ctx.Done():
		err = ctx.Err()
	case <-p.timer.C:
		err = ErrBudget
	}
	if err != nil {
		if p.over.CompareAndSwap(false, true) {
			c.abandoned.Add(1)
			return err
		}
		<-p.answered // at the same moment
	}
	if err = p.err; err == nil {
		copy(out, p.out)
	}
	p.recycle()
	return err
}

// mostAreAbandoned reports whether the callers of most calls that may be under way have given up.
func (c *breakerCalls) mostAreAbandoned() bool { return c.abandoned.Load() > maxCalls/2 }

// pendingCall is a call of the inner backend on a goroutine of its own. It has all memory that
// this goroutine may write to; of the caller's it reads strings and the context. It returns to the
// pool when both goroutines are done with it.
type pendingCall struct {
	calls   *breakerCalls
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

func newPendingCall(calls *breakerCalls) *pendingCall {
	timer := time.NewTimer(calls.budget)
	c := &pendingCall{calls: calls, answered: make(chan struct{}, 1), timer: timer}
	c.run = c.work
	return c
}

// work calls the inner backend, on the goroutine of the call.
func (c *pendingCall) work() {
	defer c.end()
	c.err = errExited // unless askInner returns
	c.err = askInner(c.ctx, c.calls.inner, c.peeks, c.charges, c.out)
}

// end hands the answer to the caller. If the caller has left, it returns the units.
func (c *pendingCall) end() {
	if c.over.CompareAndSwap(false, true) {
		c.calls.underWay.Add(-1)
		c.answered <- struct{}{}
		return
	}
	if c.err == nil && !c.peeks {
		c.discard()
	}
	c.calls.abandoned.Add(-1)
	c.calls.underWay.Add(-1)
	c.recycle()
}

func (c *pendingCall) recycle() {
	c.timer.Stop()
	clear(c.charges)
	c.ctx, c.charges, c.out, c.err = nil, c.charges[:0], c.out[:0], nil
	c.calls.pending.Put(c)
}

// discard returns the units of charges that can be ended: those with Lasts, and those of
// concurrency limits.
func (c *pendingCall) discard() {
	var endings []backends.Ending
	for i := range c.charges {
		ch, d := &c.charges[i], &c.out[i]
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Second)
	defer cancel()
	defer func() { _ = recover() }() // the inner backend may panic, and no caller is left
	_ = backends.Settle(ctx, c.calls.inner, endings, make([]limits.Settlement, len(endings)))
}
