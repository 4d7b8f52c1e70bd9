package nethttp

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
)

type outcomeKey struct{}

// withOutcome is a [GateConfig].Attach.
func withOutcome(r *http.Request, o core.Outcome) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), outcomeKey{}, &o))
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
