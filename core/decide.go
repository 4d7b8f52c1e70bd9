package core

import (
	"context"
	"errors"
	"fmt"
)

// scratch is what one decision needs besides its outcome, pooled.
type scratch struct {
	charges   []Charge
	decisions []Decision
	charged   []int // index in the outcome of each charge
	used      int   // charges filled in
}

// Decide decides r against all rules as one atomic step and takes what it costs
// if it is allowed. It never fails: what goes wrong is part of the outcome.
func (l *Limiter[R]) Decide(ctx context.Context, r R) (o Outcome) {
	if ctx.Err() != nil {
		o.verdict, o.err = Abandoned, ctx.Err()
		return o
	}
	s := l.scratch.Get().(*scratch)
	l.decide(ctx, r, s, &o)
	clear(s.charges[:s.used])
	s.used = 0
	l.scratch.Put(s)
	if l.observe != nil && o.verdict != Abandoned {
		l.observe(ctx, r, o)
	}
	return o
}

func (l *Limiter[R]) decide(ctx context.Context, r R, s *scratch, o *Outcome) {
	o.verdict = Allowed
	for i := range l.rules {
		if !l.ask(&l.rules[i], r, s, o) {
			o.settle(SourceNotAsked, s)
			return
		}
	}
	if s.used == 0 {
		return
	}
	if err := take(ctx, l.backend, s.charges[:s.used], s.decisions[:s.used]); err != nil {
		if ctx.Err() != nil {
			*o = Outcome{verdict: Abandoned, err: ctx.Err()}
			return
		}
		l.survive(ctx, err, s, o)
		return
	}
	for i, at := range s.charged[:s.used] {
		o.answer(at, &s.decisions[i])
	}
}

// answer records the decision on the at-th rule of o.
func (o *Outcome) answer(at int, d *Decision) {
	o.at(at).Decision = *d
	if !d.Allowed && o.verdict == Allowed {
		o.verdict = Denied
	}
}

// settle records, for every charge of s, that its rule was decided by source
// alone.
func (o *Outcome) settle(source Source, s *scratch) {
	for _, at := range s.charged[:s.used] {
		o.at(at).Decision = uncounted(source)
	}
}

// uncounted returns the decision of a source that counts nothing.
func uncounted(source Source) Decision {
	if source == SourceClosed {
		return Decision{Source: source, RetryAfter: closedRetryAfter, EffectiveWindow: closedRetryAfter}
	}
	return Decision{Source: source, Allowed: true}
}

// fail records that a rule could not be applied, and returns whether the
// request may still be allowed.
func (o *Outcome) fail(d *ruleDecision, onFailure Failure, err error) bool {
	if o.err == nil {
		o.err = err
	}
	if onFailure == FailOpen {
		d.Decision = uncounted(SourceOpen)
		return true
	}
	d.Decision = uncounted(SourceClosed)
	o.verdict = Unavailable
	return false
}

// ask finds what rule charges r and adds it to s and o. It returns false if the
// request is settled, because the rule could not be applied.
func (l *Limiter[R]) ask(rule *compiledRule[R], r R, s *scratch, o *Outcome) bool {
	ch := &s.charges[s.used]
	ch.Scope, ch.Limit, ch.Cost = rule.scope, rule.Limit, 1
	err := rule.charge(r, ch)
	if err == errDoesNotApply {
		return true
	}
	d := o.grow()
	d.rule = &rule.ruleIdentity
	if err != nil {
		*ch = Charge{}
		return o.fail(d, rule.OnFailure, fmt.Errorf("core: rule %q: %w", rule.name, err))
	}
	d.key, d.ask, d.cost = ch.Key, ch.Limit, ch.Cost
	s.charged[s.used] = o.n - 1
	s.used++
	return true
}

// charge fills in what the functions of rule find in r. A panic in one of them
// is an error like any other.
func (rule *compiledRule[R]) charge(r R, ch *Charge) (err error) {
	part := "key"
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
		if err != nil && err != errDoesNotApply {
			err = fmt.Errorf("%s: %w", part, err)
		}
	}()
	ch.Key, err = rule.Key(r)
	if err != nil {
		switch {
		case errors.Is(err, ErrAbsent):
			ch.Key = ""
		case errors.Is(err, errDoesNotApply):
			return errDoesNotApply
		default:
			return err
		}
	}
	if rule.LimitFor != nil {
		part = "limit"
		if ch.Limit, err = rule.LimitFor(r); err != nil {
			return err
		}
		if err = ch.Limit.Validate(); err != nil {
			return err
		}
	}
	if rule.Cost != nil {
		part = "cost"
		if ch.Cost = rule.Cost(r); ch.Cost < 0 {
			return fmt.Errorf("must not be negative (got %d)", ch.Cost)
		}
	}
	return nil
}

// take calls b.Take and turns a panic in it into an error.
func take(ctx context.Context, b Backend, charges []Charge, out []Decision) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("core: backend %T: panic: %v", b, v)
		}
	}()
	return b.Take(ctx, charges, out)
}
