package breaker

import (
	"context"
	"time"

	"github.com/weir-go/weir/limits"
)

// settleTimeout bounds the settling of a discarded taking.
const settleTimeout = time.Second

// Settle implements [limits.Settler] if the inner backend does. It always calls the inner
// backend, even while the breaker is open: what was taken has to end. It has no time
// budget, only ctx bounds it, and it counts neither as a failure nor as a success.
func (b *Breaker) Settle(ctx context.Context, endings []limits.Ending, out []limits.Settlement) error {
	return limits.Settle(ctx, b.inner, endings, out)
}

// discard ends what a decision took that came too late: its caller had left, or the budget
// was over. Whoever receives units owns them, and the breaker received these. It runs on
// the goroutine of the abandoned call, which keeps its place among Options.MaxCalls.
func (b *Breaker) discard(ctx context.Context, charges []limits.Charge, decisions []limits.Decision) {
	endings := endingsOf(charges, decisions)
	if len(endings) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	defer func() { _ = recover() }() // of the inner backend: there is nobody to tell
	_ = limits.Settle(ctx, b.inner, endings, make([]limits.Settlement, len(endings)))
}

// endingsOf returns the endings that return all that was taken by charges that can be
// ended: they have Lasts, or a concurrency limit.
func endingsOf(charges []limits.Charge, decisions []limits.Decision) (endings []limits.Ending) {
	for i := range charges {
		if d := &decisions[i]; !charges[i].Shadow && (!d.Allowed || d.Source == limits.SourceNotAsked) {
			return nil // denied: nothing was taken
		}
	}
	for i := range charges {
		ch, d := &charges[i], &decisions[i]
		if !d.Allowed || ch.Cost == 0 || ch.Lasts == 0 && ch.Limit.Algorithm() != limits.AlgorithmConcurrent {
			continue
		}
		endings = append(endings, limits.Ending{
			Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Taken: ch.Cost, Ticket: d.Ticket, Lasts: ch.Lasts,
		})
	}
	return endings
}
