package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/call"
	"github.com/weir-go/weir/limits"
)

// Errors that [Breaker.Take] and [Breaker.Peek] return, besides those of the backend
// and of the caller's context. Their texts contain no key.
var (
	// ErrOpen means that the backend was not called because it keeps failing. The log
	// line "weir: backend degraded" has the failure that opened the breaker.
	ErrOpen = errors.New("remote: the circuit is open: the backend keeps failing")

	// ErrBudget means that the backend did not answer within the time budget. A client
	// that dials a dead server again and again fails with it too. Check that the
	// backend can be reached; look for slow commands on it and for packet loss on the
	// way to it; or raise [Options].Budget.
	ErrBudget = errors.New("remote: no answer within the time budget")

	// ErrBusy means that a backend that does not honour deadlines was not called, because
	// about 1,000 of its calls are under way, abandoned ones included.
	ErrBusy = errors.New("remote: too many calls under way")

	errLengths = errors.New("remote: the numbers of charges and decisions differ")
	errExited  = errors.New("remote: the backend called runtime.Goexit instead of answering")
)

// DeadlineHonourer is implemented by backends that know whether their Take and Peek
// fail as soon as the deadline of the context has passed, whatever they are doing then:
// waiting for a connection, connecting, writing, reading, or waiting before a retry.
type DeadlineHonourer interface {
	HonoursDeadline() bool
}

// Sparer is implemented by errors that may say nothing against the backend as a whole:
// one server of several is dead, say. The breaker does not count an error that has a
// Sparer in its tree whose SparesBackend returns true.
type Sparer interface {
	error
	SparesBackend() bool
}

// Breaker is a [limits.Backend] that wraps another. It answers or fails within a time
// budget, and fails at once while the other keeps failing. It is safe for concurrent
// use and needs no closing.
type Breaker struct {
	inner           limits.Backend
	budget          time.Duration
	honoursDeadline bool // what inner reports
	circuit         circuit

	calls     sync.Pool    // of *asked
	underWay  atomic.Int64 // calls on goroutines of their own
	abandoned atomic.Int64 // of these
}

// NewBreaker returns a closed breaker that wraps inner. It panics if inner is nil or a nil
// pointer, or if an option is out of range. If inner is a [DeadlineHonourer], NewBreaker asks
// whether it honours deadlines; it calls nothing else of inner.
func NewBreaker(inner limits.Backend, options Options) *Breaker {
	if limits.IsNil(inner) {
		panic("remote: NewBreaker: the inner backend is nil")
	}
	if options.Lease != 0 || options.Announcer != nil {
		panic("remote: NewBreaker: Lease and Announcer are options of NewStack")
	}
	if options.Budget < 0 || options.Budget > time.Hour {
		panic(fmt.Sprintf("remote: NewBreaker: Budget must be 0 to 1h (got %v)", options.Budget))
	}
	if options.OpenFor < 0 {
		panic(fmt.Sprintf("remote: NewBreaker: OpenFor must not be negative (got %v)", options.OpenFor))
	}
	budget := cmp.Or(options.Budget, 50*time.Millisecond)
	b := &Breaker{inner: inner, budget: budget}
	b.circuit.budget, b.circuit.openFor = budget, cmp.Or(options.OpenFor, time.Second)
	b.circuit.log.logger, b.circuit.log.isOpen = options.Logger, b.circuit.isOpen
	b.circuit.status.Store(&status{since: time.Now()})
	if h, ok := inner.(DeadlineHonourer); ok {
		b.honoursDeadline = h.HonoursDeadline()
	}
	b.calls.New = func() any { return newAsked(b) }
	return b
}

// Take implements [limits.Backend]. It refuses a context that has ended.
func (b *Breaker) Take(ctx context.Context, charges []limits.Charge, out []limits.Decision) error {
	return b.decide(ctx, false, charges, out)
}

// Peek implements [limits.Peeker] if the inner backend does. The budget applies to it,
// and it counts, as for Take.
func (b *Breaker) Peek(ctx context.Context, charges []limits.Charge, out []limits.Decision) error {
	return b.decide(ctx, true, charges, out)
}

// Reset implements [limits.Resetter] if the inner backend does. Like Count and Settle it
// calls the inner backend even while the breaker is open, has no time budget but ctx, and
// counts neither as a failure nor as a success.
func (b *Breaker) Reset(ctx context.Context, scope, key string) error {
	return limits.Reset(ctx, b.inner, scope, key)
}

// Count implements [limits.Counter] if the inner backend does: see Reset.
func (b *Breaker) Count(ctx context.Context) (int, error) { return limits.Count(ctx, b.inner) }

// Settle implements [limits.Settler] if the inner backend does: see Reset.
func (b *Breaker) Settle(ctx context.Context, endings []limits.Ending, out []limits.Settlement) error {
	return limits.Settle(ctx, b.inner, endings, out)
}

// Unwrap returns the inner backend.
func (b *Breaker) Unwrap() limits.Backend { return b.inner }

// decide takes, or peeks.
func (b *Breaker) decide(ctx context.Context, peeks bool, charges []limits.Charge, out []limits.Decision) (err error) {
	if len(charges) != len(out) {
		return errLengths
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	status := b.circuit.admit()
	if status == nil {
		return ErrOpen
	}
	counts := true
	defer func() { // even if the backend ends this goroutine
		_ = recover() // of a context, say: ask makes an error of a panic of the backend
		b.circuit.record(status, err, counts)
	}()
	err = errExited // unless it returns
	err = b.ask(ctx, peeks, charges, out)
	counts = err == nil || b.blames(ctx, charges, err)
	return err
}

// ask calls the inner backend and waits no longer than the budget.
func (b *Breaker) ask(ctx context.Context, peeks bool, charges []limits.Charge, out []limits.Decision) error {
	if !b.honoursDeadline {
		return b.askOnGoroutine(ctx, peeks, charges, out)
	}
	deadline := time.Now().Add(b.budget)
	if own, ok := ctx.Deadline(); !ok || deadline.Before(own) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	err := askInner(ctx, b.inner, peeks, charges, out)
	if err != nil && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", ErrBudget, err)
	}
	return err
}

func askInner(ctx context.Context, inner limits.Backend, peeks bool, charges []limits.Charge, out []limits.Decision) error {
	if peeks {
		return call.Peek(ctx, inner, charges, out)
	}
	return call.Take(ctx, inner, charges, out)
}

// blames reports whether err is a failure of the backend. It is not if the caller's context
// has ended, or its deadline has passed, which a backend may notice before the context does;
// nor if the charges are wrong for any backend.
func (b *Breaker) blames(ctx context.Context, charges []limits.Charge, err error) bool {
	deadline, ok := ctx.Deadline()
	var sparer Sparer
	switch {
	case ctx.Err() != nil || ok && !time.Now().Before(deadline):
		return false
	case err == ErrBusy:
		return b.abandoned.Load() > maxCalls/2
	case errors.As(err, &sparer) && sparer.SparesBackend(), errors.Is(err, errors.ErrUnsupported):
		return false
	}
	_, _, wrong := limits.Accounts(charges, nil, nil)
	return wrong == nil && !slices.ContainsFunc(charges, func(c limits.Charge) bool { return c.Limit.Validate() != nil })
}
