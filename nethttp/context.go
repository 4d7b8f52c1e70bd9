package nethttp

import (
	"context"

	"github.com/weir-go/weir/core"
)

type outcomeKey struct{}

func withOutcome(ctx context.Context, o core.Outcome) context.Context {
	return context.WithValue(ctx, outcomeKey{}, &o)
}

// OutcomeFrom returns the outcome of the request whose context ctx is, and
// whether there is one: the innermost limiter's that has
// [Config].OutcomeInContext set.
func OutcomeFrom(ctx context.Context) (core.Outcome, bool) {
	if o, ok := ctx.Value(outcomeKey{}).(*core.Outcome); ok {
		return *o, true
	}
	return core.Outcome{}, false
}
