package client

import (
	"context"

	"github.com/weir-go/weir/client/internal/quota"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// newLimiter returns the limiter of Options.Limit. Its keys are the names of buckets.
func newLimiter(limit limits.Limit, backend backends.Backend) (*core.Limiter[string], error) {
	return core.New(core.Config[string]{
		Backend: backend,
		Rules: []core.Rule[string]{{
			Name:  "client",
			Limit: limit,
			Key:   func(bucket string) (string, error) { return bucket, nil },
		}},
	})
}

// gate keeps calls from asking a limiter in vain.
type gate struct {
	until  instant // the limiter denies before
	room   int64   // units that were left at its last answer
	known  bool    // it has answered
	asking int64   // calls that ask at the moment
}

// next lets as many calls ask at once as there are units left, and one if none is left.
func (g *gate) next() instant {
	if g.known && g.asking >= max(g.room, 1) {
		return unknown
	}
	return g.until
}

// take takes a unit of the cap for c, which is asking. It returns false if no unit is left: then c
// has to be admitted again.
func (p *pacer) take(ctx context.Context, c *call) (bool, error) {
	var outcome core.Outcome
	ends := p.limiter.DecideInto(ctx, c.bucket.name, &outcome)
	ok := outcome.Allowed()

	p.mu.Lock()
	g := &c.bucket.cap
	g.asking--
	c.stage = started
	if g.known = outcome.Len() > 0; g.known {
		g.room = outcome.At(0).Remaining
	}
	if !ok {
		c.bucket.cancel(c.ticket, &c.id)
		c.stage = idle
		wait := outcome.RetryAfter()
		if outcome.Verdict() != core.Denied {
			wait = patience
		}
		g.until = max(g.until, p.now()+min(wait, quota.Longest))
	}
	c.bucket.queue.wakeFirst()
	p.mu.Unlock()

	if ok && ends { // before Observe is called, which may panic
		c.finish = func(status int) { outcome.End(core.Result{Status: status}) }
	}
	if err := outcome.Err(); err != nil && ctx.Err() == nil {
		p.tell(c, Event{Kind: Alone, Why: err.Error()})
	}
	if !ok {
		return false, context.Cause(ctx)
	}
	if err := p.delay(ctx, c, outcome.Delay(), sourceLimit); err != nil {
		p.cancel(c)
		return false, err
	}
	return true, nil
}
