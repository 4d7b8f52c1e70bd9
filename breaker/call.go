package breaker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/weir-go/weir/limits"
)

// call is one call of the inner backend on a goroutine of its own. It has all the
// memory that this goroutine may touch: of the caller's memory, only strings and the
// context. It returns to the pool when both goroutines are done with it.
type call struct {
	b       *Breaker
	ctx     context.Context
	verb    verb
	charges []limits.Charge
	out     []limits.Decision
	err     error

	fate     atomic.Int32  // underWay, finished, dropped or overran
	answered chan struct{} // has room for one answer
	timer    *time.Timer
	run      func() // c.work, a method value made in advance, so that the go statement does not allocate
}

// The fates of a call. Whoever changes underWay to another fate is the first of its two
// goroutines to finish.
const (
	underWay int32 = iota
	finished       // the backend answered or failed, in time
	dropped        // the caller's context ended first
	overran        // the budget ended first
)

func newCall(b *Breaker) *call {
	c := &call{b: b, answered: make(chan struct{}, 1), timer: time.NewTimer(b.budget)}
	c.run = c.work
	return c
}

// askOnGoroutine calls the inner backend on a goroutine of its own, and abandons the
// call when the budget or ctx ends.
func (b *Breaker) askOnGoroutine(ctx context.Context, v verb, charges []limits.Charge, out []limits.Decision) error {
	if !b.slots.acquire(b.state.Load() == int32(gobreaker.StateClosed)) {
		return ErrBusy
	}
	c := b.calls.Get().(*call)
	c.ctx, c.verb = ctx, v
	c.charges = append(c.charges, charges...)
	c.out = append(c.out, make([]limits.Decision, len(out))...)
	c.fate.Store(underWay)
	c.timer.Reset(b.budget)
	go c.run()

	select {
	case <-c.answered:
		return c.collect(out)
	case <-ctx.Done():
		c.timer.Stop()
		if c.fate.CompareAndSwap(underWay, dropped) {
			time.AfterFunc(b.budget, c.overrun)
			return ctx.Err()
		}
	case <-c.timer.C:
		if c.fate.CompareAndSwap(underWay, overran) {
			b.overdue.Add(1)
			return ErrBudget
		}
	}
	<-c.answered // the answer came just now
	return c.collect(out)
}

// work calls the inner backend. It runs on the goroutine of the call.
func (c *call) work() {
	defer c.end()
	c.err = errExited
	c.err = c.b.askInner(c.ctx, c.verb, c.charges, c.out)
}

// end frees the slot of the call, and hands the answer to the caller if it still
// waits. Otherwise it ends what the call has taken.
func (c *call) end() {
	b := c.b
	fate := c.fate.Swap(finished)
	if fate != underWay && c.err == nil && c.verb == take {
		b.discard(c.ctx, c.charges, c.out)
	}
	b.slots.free()
	switch fate {
	case underWay:
		c.answered <- struct{}{}
	case overran:
		b.overdue.Add(-1)
		c.recycle()
	case dropped: // not recycled, because overrun may still read it
	}
}

// overrun counts a dropped call that is still under way when its budget ends.
func (c *call) overrun() {
	if c.fate.CompareAndSwap(dropped, overran) {
		c.b.overdue.Add(1)
	}
}

// collect copies the answer to the caller and recycles the call.
func (c *call) collect(out []limits.Decision) error {
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

// callSlots bounds the number of calls under way.
type callSlots struct {
	taken    atomic.Int64
	max      int64
	reserved int64 // for probes
}

func newCallSlots(maxCalls int) callSlots {
	return callSlots{max: int64(maxCalls), reserved: int64(min(maxCalls-1, (maxCalls+7)/8))}
}

// acquire takes a slot and reports whether one was free. If keepReserved is true, the
// slots reserved for probes do not count as free.
func (s *callSlots) acquire(keepReserved bool) bool {
	most := s.max
	if keepReserved {
		most -= s.reserved
	}
	if s.taken.Add(1) <= most {
		return true
	}
	s.taken.Add(-1)
	return false
}

// free returns a slot that was acquired.
func (s *callSlots) free() { s.taken.Add(-1) }
