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
	"github.com/weir-go/weir/limits"
)

// DeadlineHonourer is implemented by backends that know whether their Take and Peek
// fail as soon as the deadline of the context has passed. That must be true whatever they
// are doing then: waiting for a connection, connecting, writing, reading, or waiting
// before a retry.
type DeadlineHonourer interface {
	HonoursDeadline() bool
}

// Sparer is implemented by errors that may say nothing against the backend as a whole.
// One server of several may be dead, or there may be more requests than a backend that
// works can answer in time. If an error has a Sparer in its tree and SparesBackend
// returns true, the breaker counts it neither as a failure nor as a success.
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

	circuit *gobreaker.CircuitBreaker[struct{}]
	state   atomic.Int32 // gobreaker.State of circuit
	trip    trip
	reports reports
	status  status

	slots   callSlots
	calls   sync.Pool    // of *call
	overdue atomic.Int64 // calls under way that have exceeded the budget
}

// New returns a closed breaker that wraps inner. It panics if inner is nil or a nil
// pointer, or if an option is out of range. If inner is a [DeadlineHonourer], New asks
// whether it honours deadlines; it calls nothing else of inner.
func New(inner limits.Backend, options Options) *Breaker {
	if v := reflect.ValueOf(inner); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("breaker: New: the inner backend is nil")
	}
	if options.Announcer != nil {
		panic("breaker: New: Announcer is an option of NewStack")
	}
	if options.Lease != 0 {
		panic(fmt.Sprintf("breaker: New: Lease is an option of NewStack (got %v)", options.Lease))
	}
	options = options.withDefaults()
	b := &Breaker{
		inner:   inner,
		budget:  options.Budget,
		trip:    trip{failures: uint32(options.Failures), atLeast: 4 * min(options.Budget, time.Hour)},
		reports: reports{hook: options.OnChange, logger: options.Logger},
		slots:   newCallSlots(options.MaxCalls),
	}
	if h, ok := inner.(DeadlineHonourer); ok {
		b.honoursDeadline = h.HonoursDeadline()
	}
	b.calls.New = func() any { return newCall(b) }
	b.status.since = time.Now()
	b.trip.closed(b.status.since)
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   uint32(options.Probes),
		Timeout:       options.OpenFor,
		IsExcluded:    func(err error) bool { return err == errUncounted },
		IsSuccessful:  b.trip.record,
		ReadyToTrip:   b.trip.due,
		OnStateChange: b.change,
	})
	return b
}

// verb is the method of the inner backend to call.
type verb uint8

const (
	take verb = iota
	peek
)

// Take implements [limits.Backend]. It refuses a context that has ended.
func (b *Breaker) Take(ctx context.Context, charges []limits.Charge, out []limits.Decision) error {
	return b.decide(ctx, take, charges, out)
}

// Peek implements [limits.Peeker] if the inner backend does. The budget applies to it,
// and it counts, as for Take.
func (b *Breaker) Peek(ctx context.Context, charges []limits.Charge, out []limits.Decision) error {
	return b.decide(ctx, peek, charges, out)
}

// Reset implements [limits.Resetter] if the inner backend does. It always calls the inner
// backend, even while the breaker is open, and has no time budget: only ctx bounds it.
func (b *Breaker) Reset(ctx context.Context, scope, key string) error {
	return limits.Reset(ctx, b.inner, scope, key)
}

// Count implements [limits.Counter] if the inner backend does. It always calls the inner
// backend, even while the breaker is open, and has no time budget: only ctx bounds it.
func (b *Breaker) Count(ctx context.Context) (int, error) { return limits.Count(ctx, b.inner) }

// Unwrap returns the inner backend.
func (b *Breaker) Unwrap() limits.Backend { return b.inner }

func (b *Breaker) decide(ctx context.Context, v verb, charges []limits.Charge, out []limits.Decision) (err error) {
	if len(charges) != len(out) {
		return errLengths
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	asked, exiting := false, false
	defer func() {
		if exiting {
			_ = recover() // the rest of the exit follows
			err = errExited
		}
	}()
	b.circuit.Execute(func() (struct{}, error) {
		asked, exiting = true, true
		defer func() {
			if exiting { // by runtime.Goexit: without a panic the circuit would wait for a result for ever
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

// ask calls the inner backend and waits no longer than the budget.
func (b *Breaker) ask(ctx context.Context, v verb, charges []limits.Charge, out []limits.Decision) error {
	if !b.honoursDeadline {
		return b.askOnGoroutine(ctx, v, charges, out)
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
func (b *Breaker) askInner(ctx context.Context, v verb, charges []limits.Charge, out []limits.Decision) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("breaker: backend %T: panic: %v", b.inner, v)
		}
	}()
	if v == peek {
		return limits.Peek(ctx, b.inner, charges, out)
	}
	return b.inner.Take(ctx, charges, out)
}

// blames reports whether err counts against the backend.
func (b *Breaker) blames(ctx context.Context, v verb, charges []limits.Charge, err error) bool {
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
	return !areInvalid(charges)
}

// ended reports whether ctx has ended or its deadline has passed. A backend that
// watches the deadline may fail before the context notices.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}
