package nethttp

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
)

type outcomeKey struct{}

// withOutcome implements [gate.Config].Attach.
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

// Detach leaves the end of the request with context ctx to the caller, who must call end
// when it is over. Without it the end of the handler is the end of the request. It is for
// a request that outlives its handler, such as a hijacked connection, or that is over
// before its handler, such as one whose costly part is done while a slow client reads the
// answer. Any goroutine may call end; only the first call counts. A panic of the handler
// does not end a detached request: defer end if the handler is to call it. end sets the
// result, so give it the status of the answer.
//
// With several limiters, end ends what the request has to end with all of them that have
// let it in. ok is false, and end nil, if there is nothing to end: no limiter has a rule
// with a concurrency limit or a FinalCost that charged the request, the request has
// ended, or it is detached already.
func Detach(ctx context.Context) (end func(core.Result), ok bool) { return gate.Detach(ctx) }

// Spend adds n units to what the request with context ctx has really cost under the rule
// of that name, which needs a FinalCost such as [core.SpentCost]. The first call replaces the
// rule's estimate; see [core.Outcome.Spend]. A handler may call it again and again while
// it streams, and goroutines at once. With several limiters it reaches every rule of the
// name. It reports whether it counted anywhere.
func Spend(ctx context.Context, rule string, n int64) bool { return gate.Spend(ctx, rule, n) }
