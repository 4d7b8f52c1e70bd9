package plans

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/internal/ground/failure"
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

// ask calls lookup, and turns a panic into an error. An error that wraps ErrNoPlan becomes
// ErrNoPlan.
func (f *flight[P]) ask(
	lookup func(context.Context, string) (P, error),
) (plan P, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &failure.Panic{Value: v}
		}
	}()
	plan, err = lookup(f.ctx, f.key)
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
