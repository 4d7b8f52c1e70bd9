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

// Detach detaches the end of the request with context ctx from its handler: the caller must call
// end when the request is over. Without Detach, the request ends when the handler returns. Use it
// for a request that outlives its handler, such as a hijacked connection, or for one whose costly
// part is over earlier, while a slow client still reads the answer. Any goroutine may call end;
// only the first call counts. A panic of the handler does not end a detached request: if the
// handler calls end, defer it. end sets the result, so pass the status of the answer.
//
// With several limiters, end ends the request for all that allowed it. ok is false, and end nil, if
// there is nothing to end: no rule with a concurrency limit or a FinalCost charged the request, the
// request has ended, or it is already detached.
func Detach(ctx context.Context) (end func(core.Result), ok bool) { return gate.Detach(ctx) }

// Spend adds n units to the final cost of the request with context ctx under the named rule, which
// needs a FinalCost such as [core.SpentCost]. The first call replaces the rule's estimate; see
// [core.Outcome.Spend]. A handler may call it repeatedly while it streams, and from several
// goroutines. With several limiters it applies to every rule of that name. It reports whether there
// was such a rule.
func Spend(ctx context.Context, rule string, n int64) bool { return gate.Spend(ctx, rule, n) }
