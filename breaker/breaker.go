package breaker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/weir-go/weir/core"
)

// DeadlineHonourer is implemented by backends that can tell whether their Take
// and Peek fail as soon as the deadline of their context has passed, in whatever
// they are then held up: waiting for a connection, connecting, writing, reading,
// or before trying again.
type DeadlineHonourer interface {
	HonoursDeadline() bool
}

// Sparer is implemented by errors that may say nothing against the backend as a
// whole: such as those of one of its servers while others are well, or of more
// requests than it takes while it answers. An error that has such an error in its
// tree, whose SparesBackend returns true, is neither a failure nor a success.
type Sparer interface {
	error
	SparesBackend() bool
}

// Breaker is a [core.Backend] around another that answers or fails within a time
// budget, and at once while the other keeps failing. It is safe for concurrent
// use and needs no closing.
type Breaker struct {
	inner  core.Backend
	budget time.Duration
	prompt bool // inner honours deadlines

	circuit *gobreaker.CircuitBreaker[struct{}]
	state   atomic.Int32 // gobreaker.State of circuit
	trip    trip
	reports reports

	places  places
	calls   sync.Pool    // of *call
	overdue atomic.Int64 // calls that have overrun the budget and are still under way
}

// New returns a closed breaker around inner. It panics if inner is nil, or a nil
// pointer, or an option is negative. It does not call inner, except to ask whether it is a
// [DeadlineHonourer] that honours deadlines.
func New(inner core.Backend, options Options) *Breaker {
	if v := reflect.ValueOf(inner); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("breaker: New: the inner backend is nil")
	}
	options = options.filled()
	b := &Breaker{
		inner:   inner,
		budget:  options.Budget,
		trip:    trip{failures: uint32(options.Failures), atLeast: 4 * min(options.Budget, time.Hour)},
		reports: reports{hook: options.OnChange, logger: options.Logger},
		places:  placesFor(options.MaxCalls),
	}
	if h, ok := inner.(DeadlineHonourer); ok {
		b.prompt = h.HonoursDeadline()
	}
	b.calls.New = func() any { return newCall(b) }
	b.trip.closed(time.Now())
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   uint32(options.Probes),
		Timeout:       options.OpenFor,
		IsExcluded:    func(err error) bool { return err == errUncounted },
		IsSuccessful:  b.trip.note,
		ReadyToTrip:   b.trip.due,
		OnStateChange: b.change,
	})
	return b
}

// verb is what to ask the inner backend for.
type verb uint8

const (
	take verb = iota
	peek
)

// Take implements [core.Backend]. A context that has ended is refused.
func (b *Breaker) Take(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	return b.decide(ctx, take, charges, out)
}

// Peek implements [core.Peeker] if the inner backend does. It is subject to the
// budget, and counted, as Take is.
func (b *Breaker) Peek(ctx context.Context, charges []core.Charge, out []core.Decision) error {
	return b.decide(ctx, peek, charges, out)
}

// Reset implements [core.Resetter] if the inner backend does. It goes straight to
// the inner backend, open or not, with no budget but that of ctx.
func (b *Breaker) Reset(ctx context.Context, scope, key string) error {
	return core.Reset(ctx, b.inner, scope, key)
}

// Count implements [core.Counter] if the inner backend does. It goes straight to
// the inner backend, open or not, with no budget but that of ctx.
func (b *Breaker) Count(ctx context.Context) (int, error) { return core.Count(ctx, b.inner) }

// Unwrap returns the inner backend.
func (b *Breaker) Unwrap() core.Backend { return b.inner }

func (b *Breaker) decide(ctx context.Context, v verb, charges []core.Charge, out []core.Decision) (err error) {
	if len(charges) != len(out) {
		return errLengths
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	asked, exiting := false, false
	defer func() {
		if exiting {
			_ = recover() // what follows is the rest of the exit
			err = errExited
		}
	}()
	b.circuit.Execute(func() (struct{}, error) {
		asked, exiting = true, true
		defer func() {
			if exiting { // by runtime.Goexit, after which the circuit would wait for a result
				panic(errExited)
			}
		}()
		err = b.ask(ctx, v, charges, out)
		exiting = false
		if err != nil && !b.blames(ctx, v, charges, err) {
			return struct{}{}, errUncounted
		}
		return struct{}{}, err
	})
	if !asked {
		return ErrOpen
	}
	return err
}

// ask asks the inner backend, for as long as the budget lasts.
func (b *Breaker) ask(ctx context.Context, v verb, charges []core.Charge, out []core.Decision) error {
	if !b.prompt {
		return b.askAside(ctx, v, charges, out)
	}
	deadline := time.Now().Add(b.budget)
	if own, ok := ctx.Deadline(); !ok || deadline.Before(own) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	err := b.askInner(ctx, v, charges, out)
	if err != nil && !time.Now().Before(deadline) {
		return fmt.Errorf("%w: %w", ErrBudget, err)
	}
	return err
}

// askInner calls the inner backend and turns a panic in it into an error.
func (b *Breaker) askInner(ctx context.Context, v verb, charges []core.Charge, out []core.Decision) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("breaker: backend %T: panic: %v", b.inner, v)
		}
	}()
	if v == peek {
		return core.Peek(ctx, b.inner, charges, out)
	}
	return b.inner.Take(ctx, charges, out)
}

// blames reports whether err speaks against the backend.
func (b *Breaker) blames(ctx context.Context, v verb, charges []core.Charge, err error) bool {
	switch {
	case ended(ctx):
		return false
	case err == ErrBusy:
		return b.overdue.Load() > 0
	case v == peek && errors.Is(err, errors.ErrUnsupported):
		return false
	}
	var sparer Sparer
	if errors.As(err, &sparer) && sparer.SparesBackend() {
		return false
	}
	return !mistaken(charges)
}

// ended reports whether ctx has ended, or is about to: a backend that watches its
// deadline may be quicker than the context.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}
