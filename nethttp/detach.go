package nethttp

import (
	"context"

	"github.com/weir-go/weir/core"
)

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
func Detach(ctx context.Context) (end func(core.Result), ok bool) {
	var few [2]func(core.Result)
	ends := few[:0]
	for e := endOf(ctx); e != nil; e = e.outer {
		if end, ok := e.outcome.Detach(); ok {
			ends = append(ends, end)
		}
	}
	switch len(ends) {
	case 0:
		return nil, false
	case 1:
		return ends[0], true
	}
	return func(result core.Result) {
		for _, end := range ends {
			end(result)
		}
	}, true
}

// Spend adds n units to what the request with context ctx has really cost under the rule
// of that name, which needs a FinalCost such as [core.SpentCost]. The first call replaces the
// rule's estimate; see [core.Outcome.Spend]. A handler may call it again and again while
// it streams, and goroutines at once. With several limiters it reaches every rule of the
// name. It reports whether it counted anywhere.
func Spend(ctx context.Context, rule string, n int64) bool {
	counted := false
	for e := endOf(ctx); e != nil; e = e.outer {
		if e.outcome.Spend(rule, n) {
			counted = true
		}
	}
	return counted
}

// endContext is the context of a request that a limiter has let in and that has an end.
type endContext struct {
	context.Context
	outcome core.Outcome
	outer   *endContext // that of the next limiter outside, nil if there is none
}

type endKey struct{}

// withEnd returns ctx for a request with outcome o.
func withEnd(ctx context.Context, o *core.Outcome) context.Context {
	return &endContext{ctx, *o, endOf(ctx)}
}

// Value makes e findable in the contexts that are derived from it.
func (e *endContext) Value(key any) any {
	if key == (endKey{}) {
		return e
	}
	return e.Context.Value(key)
}

func endOf(ctx context.Context) *endContext {
	e, _ := ctx.Value(endKey{}).(*endContext)
	return e
}
