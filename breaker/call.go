package breaker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weir-go/weir/core"
)

// call is one call of the inner backend on a goroutine of its own, and all the
// memory that it may touch: nothing of the caller's but strings and the context.
// It goes back to the pool when both goroutines are done with it.
type call struct {
	b       *Breaker
	ctx     context.Context
	verb    verb
	charges []core.Charge
	out     []core.Decision
	err     error

	left     atomic.Int32  // underWay, or who left the other alone
	answered chan struct{} // holds one
	timer    *time.Timer
	run      func() // c.work; a method value made once, so that go allocates nothing
}

// What becomes of a call. Whoever changes it from underWay is first.
const (
	underWay int32 = iota
	finished       // the backend answered or failed, in time
	dropped        // the caller's context ended
	overran        // the budget ended
)

func newCall(b *Breaker) *call {
	c := &call{b: b, answered: make(chan struct{}, 1), timer: time.NewTimer(b.budget)}
	c.run = c.work
	return c
}

// askAside asks the inner backend on a goroutine of its own and leaves it behind
// when the budget or ctx ends.
func (b *Breaker) askAside(ctx context.Context, v verb, charges []core.Charge, out []core.Decision) error {
	if !b.places.take(b.state.Load() == int32(gobreaker.StateClosed)) {
		return ErrBusy
	}
	c := b.calls.Get().(*call)
	c.ctx, c.verb = ctx, v
	c.charges = append(c.charges, charges...)
	c.out = append(c.out, make([]core.Decision, len(out))...)
	c.left.Store(underWay)
	c.timer.Reset(b.budget)
	go c.run()

	select {
	case <-c.answered:
		return c.collect(out)
	case <-ctx.Done():
		c.timer.Stop()
		if c.left.CompareAndSwap(underWay, dropped) {
			time.AfterFunc(b.budget, c.overrun)
			return ctx.Err()
		}
	case <-c.timer.C:
		if c.left.CompareAndSwap(underWay, overran) {
			b.overdue.Add(1)
			return ErrBudget
		}
	}
	<-c.answered // at the very last moment
	return c.collect(out)
}

// work runs on the goroutine of the call.
func (c *call) work() {
	defer c.end()
	c.err = errExited
	c.err = c.b.askInner(c.ctx, c.verb, c.charges, c.out)
}

// end gives back the place of the call, and hands the answer to the caller if
// that still waits.
func (c *call) end() {
	b := c.b
	b.places.giveBack()
	switch c.left.Swap(finished) {
	case underWay:
		c.answered <- struct{}{}
	case overran:
		b.overdue.Add(-1)
		c.recycle()
	case dropped: // not recycled: overrun may still look at it
	}
}

// overrun notes that a dropped call, too, takes longer than it should.
func (c *call) overrun() {
	if c.left.CompareAndSwap(dropped, overran) {
		c.b.overdue.Add(1)
	}
}

// collect gives the answer to the caller.
func (c *call) collect(out []core.Decision) error {
	c.timer.Stop()
	err := c.err
	if err == nil {
		copy(out, c.out)
	}
	c.recycle()
	return err
}

func (c *call) recycle() {
	clear(c.charges)
	c.ctx, c.charges, c.out, c.err = nil, c.charges[:0], c.out[:0], nil
	c.b.calls.Put(c)
}

// places bounds the calls under way.
type places struct {
	taken    atomic.Int64
	max      int64
	reserved int64 // for probes
}

func placesFor(maxCalls int) places {
	return places{max: int64(maxCalls), reserved: int64(min(maxCalls-1, (maxCalls+7)/8))}
}

// take takes a place if one is free, all but the reserved ones if leave is set.
func (p *places) take(leave bool) bool {
	free := p.max
	if leave {
		free -= p.reserved
	}
	if p.taken.Add(1) <= free {
		return true
	}
	p.taken.Add(-1)
	return false
}

func (p *places) giveBack() { p.taken.Add(-1) }
