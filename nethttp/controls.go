package nethttp

import (
	"context"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
)

// Controls are the methods that the limiters of all frameworks have in common: those of this
// package and of all adapters embed them. R is the framework's type of request.
type Controls[R any] struct{ gate *gate.Gate[R] }

// Decide decides r and takes its cost, without answering it. It is for handlers that act on the
// outcome themselves. If a rule has a concurrency limit or a FinalCost, the caller must call
// [core.Outcome.End] when the request is over.
func (c Controls[R]) Decide(r R) core.Outcome { return c.gate.Decide(r) }

// State returns the state of the limiter: see [core.State].
func (c Controls[R]) State() core.State { return c.gate.State() }

// Replace replaces the rules, from the next request on. The rest of the configuration stays.
// Requests in flight, including those in a queue, end under the rules that decided them, with the
// header fields of those rules. Used units stay used: they belong to a scope and a key. If a rule
// has a mistake, or Config.Headers names a rule that is gone, Replace changes nothing and reports
// every mistake. It is safe for concurrent use.
func (c Controls[R]) Replace(rules []core.Rule[R]) error { return c.gate.Replace(rules) }

// Override changes the mode or the limit of one rule in this process for a time, on top of the rule
// that [New] or Replace set. It ends by itself, or when Replace removes the rule; the zero
// [core.Override] ends it at once. It returns an error, and changes nothing, if there is no such
// rule or the override has a mistake: see [core.Limiter.Override]. For a permanent change, or one
// for all instances, use Replace. It is safe for concurrent use.
func (c Controls[R]) Override(rule string, o core.Override) error {
	return c.gate.Override(rule, o)
}

// OverrideKey changes the limit of one key under one rule in this process for a time: it outranks the
// limit of the rule, its LimitFor and Override. It ends by itself, or when Replace removes the rule;
// the zero [core.Override] ends it at once. It returns an error, and changes nothing, if there is no
// such rule or the override has a mistake: see [core.Limiter.OverrideKey]. It is safe for concurrent
// use.
func (c Controls[R]) OverrideKey(rule, key string, o core.Override) error {
	return c.gate.OverrideKey(rule, key, o)
}

// KeyOverrides returns the overrides of keys under one rule, by key. Keys may identify people: do not
// log them. The caller owns the map.
func (c Controls[R]) KeyOverrides(rule string) map[string]core.Override {
	return c.gate.KeyOverrides(rule)
}

// Explain returns the outcome that r would have now, and takes no units. Remaining is the quota
// before the request is charged. If the backend fails or does not implement [backends.Peeker], the
// outcome is [core.Unavailable] with the error. The Observer is not called.
func (c Controls[R]) Explain(r R) core.Outcome { return c.gate.Explain(r) }

// ExplainKey returns the decision that a request of one unit would have now under one rule and a
// key, and takes no units. key is a result of the rule's key function. limit is for rules with a
// LimitFor; zero: that of an override of the key, or the rule's limit. It returns an error if there
// is no such rule, if the rule is disabled, if the rule has a LimitFor and limit is zero, or if the
// backend fails.
func (c Controls[R]) ExplainKey(
	ctx context.Context, rule, key string, limit limits.Limit,
) (limits.Decision, error) {
	return c.gate.ExplainKey(ctx, rule, key, limit)
}

// ResetKey resets the state of a key under one rule, as if the key had never been charged. Rules of
// equal scope share the state. key is a result of the rule's key function. It returns an error if
// there is no such rule, the backend fails, or the rule has a concurrency limit: see
// [core.Limiter.ResetKey].
func (c Controls[R]) ResetKey(ctx context.Context, rule, key string) error {
	return c.gate.ResetKey(ctx, rule, key)
}
