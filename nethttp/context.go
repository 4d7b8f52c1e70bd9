package nethttp

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
)

type outcomeKey struct{}

// withOutcome implements [GateConfig].Attach.
func withOutcome(r *http.Request, o core.Outcome) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), outcomeKey{}, &o))
}

// OutcomeFrom returns the outcome of the request with context ctx, and whether there is
// one. With several limiters, it is the outcome of the innermost one that has
// [Config].OutcomeInContext set.
func OutcomeFrom(ctx context.Context) (core.Outcome, bool) {
	if o, ok := ctx.Value(outcomeKey{}).(*core.Outcome); ok {
		return *o, true
	}
	return core.Outcome{}, false
}
