package echo5mw

import (
	"context"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Replace puts other rules into force, from the next request on. Everything else of the
// limiter stays. Requests under way, those that wait in a queue too, end as they began,
// with the header fields of the rules that decided them. What keys have used stays used,
// since that hangs on scope and key. If a rule has a mistake, or [Config].Headers names a
// rule that is gone, Replace changes nothing and reports every mistake. It is safe for
// concurrent use.
func (l *Limiter) Replace(rules []Rule) error { return l.gate.Replace(rules) }

// Override changes the mode or the limit of one rule in this process until an instant, on
// top of what [New] and Replace say. It ends then by itself, and when Replace leaves out
// the rule; the zero [core.Override] ends it at once. It returns an error, and changes
// nothing, if there is no such rule or the override has a mistake: see
// [core.Limiter.Override]. For a change that reaches all instances, and lasts, use Replace.
// It is safe for concurrent use.
func (l *Limiter) Override(rule string, o core.Override) error { return l.gate.Override(rule, o) }

// Explain returns the outcome that c would have now, and takes nothing. Remaining is
// what there is without the request. If the backend fails, or cannot look without taking,
// the outcome is [core.Unavailable] and says why. The Observer is not called.
func (l *Limiter) Explain(c *echo.Context) core.Outcome { return l.gate.Explain(c.Request(), c) }

// ExplainKey returns the decision that a request of one unit would have now under one rule
// and a key, and takes nothing. key is one that the rule's key function returns. limit is
// for rules with a LimitFor; zero: the rule's. It returns an error if there is no such
// rule, it is disabled or finds its limits by LimitFor and limit is zero, or the backend
// fails.
func (l *Limiter) ExplainKey(ctx context.Context, rule, key string, limit limits.Limit) (limits.Decision, error) {
	return l.gate.ExplainKey(ctx, rule, key, limit)
}

// ResetKey makes the state of a key fresh under one rule, as if the key had never been
// charged. Rules of equal scope share the state. key is one that the rule's key function
// returns. It returns an error if there is no such rule, the backend fails, or the rule has
// a concurrency limit: see [core.Limiter.ResetKey].
func (l *Limiter) ResetKey(ctx context.Context, rule, key string) error {
	return l.gate.ResetKey(ctx, rule, key)
}
