package gate

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
)

// Detach is nethttp.Detach.
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

// Spend is nethttp.Spend.
func Spend(ctx context.Context, rule string, n int64) bool {
	counted := false
	for e := endOf(ctx); e != nil; e = e.outer {
		if e.outcome.Spend(rule, n) {
			counted = true
		}
	}
	return counted
}

// endContext is the context of an allowed request that has an end.
type endContext struct {
	context.Context
	outcome core.Outcome
	outer   *endContext // that of the next outer limiter, or nil
	gate    any         // which charged the request
	answer  http.Header // of the answer; nil: a call
}

// EndKey is the key under which [Detach] and [Spend] look for an end in a context.
type EndKey struct{}

// withEnd returns ctx for a request with outcome o, which a gate has charged.
func withEnd(ctx context.Context, o *core.Outcome, gate any, answer http.Header) context.Context {
	return &endContext{ctx, *o, endOf(ctx), gate, answer}
}

// Value lets endOf find e in the contexts that are derived from it.
func (e *endContext) Value(key any) any {
	if key == (EndKey{}) {
		return e
	}
	return e.Context.Value(key)
}

func endOf(ctx context.Context) *endContext {
	e, _ := ctx.Value(EndKey{}).(*endContext)
	return e
}
