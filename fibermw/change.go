package fibermw

import (
	"context"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Replace replaces the rules, from the next request on: see [nethttp.Limiter.Replace].
func (l *Limiter) Replace(rules []Rule) error { return l.gate.Replace(copying(rules)) }

// Override changes the mode or the limit of one rule for a time: see [nethttp.Limiter.Override].
func (l *Limiter) Override(rule string, o core.Override) error { return l.gate.Override(rule, o) }

// Explain returns the outcome that c would have now, and takes no units: see
// [nethttp.Limiter.Explain].
func (l *Limiter) Explain(c fiber.Ctx) core.Outcome { return l.gate.ExplainCall(c.Context(), c) }

// ExplainKey returns the decision that a request of one unit would have now under one rule and a
// key, and takes no units: see [nethttp.Limiter.ExplainKey].
func (l *Limiter) ExplainKey(
	ctx context.Context, rule, key string, limit limits.Limit,
) (limits.Decision, error) {
	return l.gate.ExplainKey(ctx, rule, key, limit)
}

// ResetKey resets the state of a key under one rule: see [nethttp.Limiter.ResetKey].
func (l *Limiter) ResetKey(ctx context.Context, rule, key string) error {
	return l.gate.ResetKey(ctx, rule, key)
}
