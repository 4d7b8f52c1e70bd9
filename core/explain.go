package core

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Explain returns the outcome that r would have now, and takes nothing. Numbers are as
// [backends.Peeker] says: Remaining is what there is without the request. It asks neither a denial
// cache nor the fallback: if the backend fails, or cannot peek, the outcome is
// Unavailable and says why. The Observer is not called.
func (limiter *Limiter[R]) Explain(ctx context.Context, r R) (o Outcome) {
	l := limiter.current.Load()
	o.reset(Allowed, l.revision)
	if o.abandonIfEnded(ctx) {
		return o
	}
	s := l.scratch.Get().(*scratch)
	defer l.release(s)
	l.charge(r, s, &o)
	if o.abandonIfEnded(ctx) || o.verdict != Allowed {
		return o
	}
	if s.local != nil {
		l.peek(ctx, l.local, limits.SourceLocal, s.local, &o)
	}
	switch o.verdict {
	case Allowed:
		l.peek(ctx, l.backend, limits.SourcePrimary, s, &o)
	case Abandoned: // which has no rules
	default:
		o.markAll(limits.SourceNotAsked, s)
	}
	return o
}

// peek asks b to decide the charges of s without taking.
func (l *ruleSet[R]) peek(ctx context.Context, b backends.Backend, source limits.Source, s *scratch, o *Outcome) {
	if s.used == 0 {
		return
	}
	charges, decisions := s.charges[:s.used], s.decisions[:s.used]
	if err := call.Peek(ctx, b, charges, decisions); err != nil {
		if o.abandonIfEnded(ctx) {
			return
		}
		o.verdict, o.err = Unavailable, errors.Join(o.err, err)
		o.markAll(limits.SourceClosed, s)
		return
	}
	for i, at := range s.charged[:s.used] {
		decisions[i].Source = source
		o.record(at, &decisions[i])
	}
}

// ExplainKey returns the decision that a request of one unit would have now under the
// rule of that name and a key, and takes nothing. The key is one that the rule's key
// function returns. limit is for rules with a LimitFor; zero: the rule's. It returns an
// error if there is no such rule, it has no limit, or the backend fails.
func (limiter *Limiter[R]) ExplainKey(ctx context.Context, rule, key string, limit limits.Limit) (limits.Decision, error) {
	l := limiter.current.Load()
	i := slices.IndexFunc(l.rules, func(r compiledRule[R]) bool { return r.name == rule })
	if i < 0 {
		return limits.Decision{}, fmt.Errorf("core: explain: there is no rule %q, or it is disabled", rule)
	}
	found := &l.rules[i]
	if limit == (limits.Limit{}) {
		if limit = found.Limit; found.varies {
			return limits.Decision{}, fmt.Errorf("core: explain: rule %q: limit: is missing, and the rule has a LimitFor: pass the limit of the key", rule)
		}
	}
	if err := limit.Validate(); err != nil {
		return limits.Decision{}, prefixEach(fmt.Sprintf("core: explain: rule %q: limit: ", rule), err)
	}
	b, source := l.backend, limits.SourcePrimary
	if found.Local && l.local != nil {
		b, source = l.local, limits.SourceLocal
	}
	out := make([]limits.Decision, 1)
	if err := call.Peek(ctx, b, []backends.Charge{{Scope: found.scope, Key: key, Limit: limit, Cost: 1}}, out); err != nil {
		return limits.Decision{}, err
	}
	out[0].Source, out[0].Delay = source, found.delay(out[0].Delay)
	return out[0], nil
}
