package plans

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/ground/failure"
)

// longestKey bounds the memory of cached keys.
const longestKey = 1024

// Classes of look-ups. Each has a bound of its own.
const (
	newKey = iota // no plan is cached
	plannedKey
)

var errBudget = fmt.Errorf("plans: a look-up exceeded its budget: %w", context.DeadlineExceeded)

// flight is a look-up, which all requests of its key share.
type flight[P Plan] struct {
	key    string
	class  int
	at     time.Duration   // when it began
	ctx    context.Context // of the look-up; ends when the budget is used up
	cancel context.CancelFunc

	done chan struct{} // closed after the fields below are set
	plan P
	err  error // nil: plan is the answer
}

// flightLocked returns the look-up of a key that is under way, or begins one. If none may begin it
// returns the reason.
func (c *Cache[P]) flightLocked(key string, e *entry[P], now time.Duration) (*flight[P], error) {
	if f := c.flights[key]; f != nil {
		return f, nil
	}
	class := newKey
	if e != nil && e.hasPlan {
		class = plannedKey
	}
	switch {
	case c.closed:
		return nil, ErrClosed
	case e.failedSince(now, c.options.TTL/10):
		return nil, e.err
	case len(key) > longestKey:
		c.state.Refused++
		return nil, ErrLongKey
	case c.underWay[class] >= c.options.MaxLookups:
		c.state.Refused++
		return nil, ErrBusy
	}
	// A clone, since key may be a part of a longer text, such as the header of a request.
	f := &flight[P]{key: strings.Clone(key), class: class, at: now, done: make(chan struct{})}
	f.ctx, f.cancel = context.WithTimeoutCause(c.ctx, c.options.Budget, errBudget)
	c.flights[f.key] = f
	c.underWay[class]++
	go c.run(f)
	return f, nil
}

// run calls the look-up of f. It ends f also if the look-up exits the goroutine.
func (c *Cache[P]) run(f *flight[P]) {
	f.err = errors.New("plans: the look-up called runtime.Goexit")
	defer c.finish(f)
	f.plan, f.err = c.call(f)
}

// call calls the look-up of f, and turns a panic into an error. An error that wraps ErrNoPlan becomes
// ErrNoPlan.
func (c *Cache[P]) call(f *flight[P]) (plan P, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &failure.Panic{Value: v}
		}
	}()
	plan, err = c.lookup(f.ctx, f.key)
	switch {
	case err == nil:
		if err = plan.Validate(); err != nil {
			err = fmt.Errorf("plans: the plan that the look-up found is not valid: %w", err)
		}
	case errors.Is(err, ErrNoPlan): // asked here, since the methods of err may panic
		err = ErrNoPlan
	}
	return plan, err
}

// finish ends f. It caches the answer, unless Expire or Close was called meanwhile.
func (c *Cache[P]) finish(f *flight[P]) {
	hasPlan := f.err == nil
	switch {
	case f.err == ErrNoPlan:
		f.plan, f.err = c.defaultPlan, nil
	case f.err != nil && f.ctx.Err() != nil:
		f.err = fmt.Errorf("%w: %w", context.Cause(f.ctx), f.err)
	}
	c.mu.Lock()
	c.underWay[f.class]--
	c.state.Lookups++
	if f.err != nil {
		c.state.Failures++
	}
	if c.flights[f.key] == f {
		delete(c.flights, f.key)
		if !c.closed {
			c.storeLocked(f.key, c.entryOfLocked(f, hasPlan))
		}
	}
	c.mu.Unlock()
	close(f.done)
	f.cancel()
}

// entryOfLocked returns the entry of the key of f after f.
func (c *Cache[P]) entryOfLocked(f *flight[P], hasPlan bool) *entry[P] {
	ttl := c.options.TTL
	if f.err == nil {
		return &entry[P]{plan: f.plan, found: true, hasPlan: hasPlan, at: f.at,
			refresh: ttl/2 + rand.N(ttl/4), // at random, so that keys spread their look-ups
			expires: ttl}
	}
	e := entry[P]{plan: c.defaultPlan}
	if known := c.entryLocked(f.key); known != nil {
		e = *known
	}
	e.err, e.failed = f.err, c.now()
	return &e
}

// wait waits for the answer of f until ctx ends or the budget of f is used up. It returns nil if f
// found an answer.
func (f *flight[P]) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	case <-f.ctx.Done():
	}
	select {
	case <-f.done: // which ends f.ctx, too
		return f.err
	default:
		return context.Cause(f.ctx)
	}
}
