package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Errors that [Breaker.Take] and [Breaker.Peek] return, besides those of the backend
// and of the caller's context. Their texts contain no key.
var (
	// ErrOpen means that the backend was not called because it keeps failing. The log line "weir:
	// backend degraded" has the failure that opened the breaker.
	ErrOpen = errors.New("remote: the circuit is open: the backend keeps failing")

	// ErrBudget means that the backend did not answer within the time budget. A client that dials
	// a dead server again and again fails with it too. Check that the backend can be reached.
	// Otherwise look for slow commands and packet loss, or raise [BreakerOptions].Budget.
	ErrBudget = errors.New("remote: no answer within the time budget")

	// ErrBusy means that a backend that does not honour deadlines was not called, because about
	// 1,000 of its calls are under way, with those that were abandoned.
	ErrBusy = errors.New("remote: too many calls under way")

	errLengths = errors.New("remote: the numbers of charges and decisions differ")
)

// sparer is an error that may not count against the backend: see [Breaker].
type sparer interface{ SparesBackend() bool }

// BreakerOptions are the options of [NewBreaker]. The zero value is ready to use.
type BreakerOptions struct {
	// Budget is how long a decision may take, an hour at most. 0: 50ms.
	Budget time.Duration

	// OpenFor is the time from the opening of the breaker to its first probe of the backend, and
	// from one probe to the next. 0: 1s.
	OpenFor time.Duration

	// Logger logs each change once: "weir: backend degraded" as a warning, with the failure and
	// its effect, and "weir: backend recovered" as information. If a backend never decided,
	// the warning is "weir: backend fails from the start", a second after its first failure. nil:
	// the logger that slog.Default returns at that time. To log nothing, use a
	// slog.DiscardHandler.
	Logger *slog.Logger
}

const (
	defaultBudget  = 50 * time.Millisecond
	longestBudget  = time.Hour
	defaultOpenFor = time.Second
)

// Breaker is a [backends.Backend] that wraps another. It answers or fails within a time budget,
// and fails at once while the other keeps failing. It is safe for concurrent use and needs no
// closing.
//
// Two methods tell it about the inner backend. A backend honours deadlines if it has a method
// HonoursDeadline() bool that returns true: its Take and Peek fail as soon as the deadline of the
// context has passed, even while they wait for a connection, connect, write, read, or wait before
// a retry. An error spares the backend if an error in its tree has a method SparesBackend() bool
// that returns true: one server of several is dead, say. The breaker does not count such an error.
//
// Reset, Count and Settle call the inner backend even while the breaker is open. Only the context
// bounds their time, and they count neither as successes nor as failures.
type Breaker struct {
	wrapper
	calls   breakerCalls
	circuit circuit
}

// NewBreaker returns a closed breaker that wraps inner, or an error that reports every mistake in
// the arguments. The only method of inner that it calls is HonoursDeadline.
func NewBreaker(inner backends.Backend, options BreakerOptions) (*Breaker, error) {
	if err := errors.Join(validateInner(inner), options.validate()); err != nil {
		return nil, err
	}
	budget := cmp.Or(options.Budget, defaultBudget)
	b := &Breaker{wrapper: wrapper{inner}}
	b.calls.init(inner, budget)
	b.circuit.budget, b.circuit.openFor = budget, cmp.Or(options.OpenFor, defaultOpenFor)
	b.circuit.log.logger, b.circuit.log.isOpen = options.Logger, b.circuit.isOpen
	b.circuit.status.Store(&status{since: time.Now()})
	return b, nil
}

// MustNewBreaker is [NewBreaker] for arguments that the program sets. It panics if they have a
// mistake.
func MustNewBreaker(inner backends.Backend, options BreakerOptions) *Breaker {
	return must(NewBreaker(inner, options))
}

func (o *BreakerOptions) validate() error {
	var errs []error
	if o.Budget < 0 || o.Budget > longestBudget {
		errs = append(errs, fmt.Errorf(
			"remote: budget: must be positive, at most %v, or 0 for %v (got %v)",
			longestBudget, defaultBudget, o.Budget))
	}
	if o.OpenFor < 0 {
		errs = append(errs, fmt.Errorf(
			"remote: open for: must be positive, or 0 for %v (got %v)", defaultOpenFor, o.OpenFor))
	}
	return errors.Join(errs...)
}

// Take implements [backends.Backend]. It fails if the context has ended already.
func (b *Breaker) Take(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	return b.decide(ctx, false, charges, out)
}

// Peek implements [backends.Peeker] if the inner backend does. The budget applies to it, and it
// counts as a success or failure, as Take does.
func (b *Breaker) Peek(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	return b.decide(ctx, true, charges, out)
}

// Status returns whether the breaker is open, for metrics and alerts. It takes no lock. Readiness
// should not depend on it: while the breaker is open, the failure policy of each rule answers.
//
// It says what recent decisions have shown, and nothing about a server that none of them asked.
// Where keys are spread over several servers, the breaker stays closed while another server has
// decided within the last minute; the log of the backend reports each server.
func (b *Breaker) Status() backends.BreakerStatus {
	s := b.circuit.status.Load()
	state := "closed"
	if s.open {
		state = "open"
	}
	return backends.BreakerStatus{State: state, Since: s.since, Opened: s.opened}
}

// decide takes, or peeks.
func (b *Breaker) decide(
	ctx context.Context, peeks bool, charges []backends.Charge, out []limits.Decision,
) (err error) {
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
		_ = recover() // a context may panic; ask turns panics of the backend into errors
		b.circuit.record(status, err, counts)
	}()
	err = errExited // unless ask returns
	err = b.calls.ask(ctx, status.open, peeks, charges, out)
	counts = err == nil || b.blames(ctx, charges, err)
	return err
}

// blames reports whether err is a failure of the backend. It is not if the caller's context has
// ended or its deadline has passed; a backend may notice the deadline before the context does. Nor
// is it if the charges are wrong for any backend.
func (b *Breaker) blames(ctx context.Context, charges []backends.Charge, err error) bool {
	deadline, ok := ctx.Deadline()
	var spares sparer
	switch {
	case ctx.Err() != nil || ok && !time.Now().Before(deadline):
		return false
	case err == ErrBusy:
		return b.calls.mostAreAbandoned()
	case errors.As(err, &spares) && spares.SparesBackend(),
		errors.Is(err, errors.ErrUnsupported):
		return false
	}
	_, _, wrong := backends.Accounts(charges, nil, nil)
	return wrong == nil && !slices.ContainsFunc(charges, func(ch backends.Charge) bool {
		return ch.Limit.Validate() != nil
	})
}
