package client

import (
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

// observe learns from the answer of the limiter to a call that asked. It lets none ask for a while
// if the limiter has not allowed the call.
func (g *gate) observe(outcome *core.Outcome, now instant) {
	g.asking--
	if g.known = outcome.Len() > 0; g.known {
		g.room = outcome.At(0).Remaining
	}
	if outcome.Allowed() {
		return
	}
	wait := patience
	if outcome.Verdict() == core.Denied {
		wait = outcome.RetryAfter()
	}
	g.until = max(g.until, now+min(wait, quota.Longest))
}
