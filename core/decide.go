package core

import (
	"context"
	"errors"
	"fmt"
	"unique"
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
	if o.abandonIfEnded(ctx) {
		return o
	}
	o.verdict = Allowed
	if l.lone != nil {
		l.decideLone(ctx, r, &o)
	} else {
		s := l.scratch.Get().(*scratch)
		l.decide(ctx, r, s, &o)
		s.reset()
		l.scratch.Put(s)
	}
	if l.observe != nil && o.verdict != Abandoned {
		l.observe(ctx, r, o)
	}
	return o
}

func (s *scratch) reset() {
	clear(s.charges[:s.used])
	s.used = 0
}

// decideLone is decide for one rule on a Memory. The two calls it makes let
// nothing escape, so that it needs no scratch: a third of a decision saved.
func (l *Limiter[R]) decideLone(ctx context.Context, r R, o *Outcome) {
	var ch Charge
	charged, _ := l.ask(&l.rules[0], r, &ch, o)
	if o.abandonIfEnded(ctx) || !charged {
		return
	}
	d := &o.first[0].Decision
	if err := l.lone.takeOne(&ch, d, true); err != nil {
		s := l.scratch.Get().(*scratch)
		s.charges[0], s.charged[0], s.used = ch, 0, 1
		l.survive(ctx, err, s, o)
		s.reset()
		l.scratch.Put(s)
	} else if !d.Allowed {
		o.verdict = Denied
	}
}

func (l *Limiter[R]) decide(ctx context.Context, r R, s *scratch, o *Outcome) {
	for i := range l.rules {
		ch := &s.charges[s.used]
		charged, settled := l.ask(&l.rules[i], r, ch, o)
		if charged {
			s.charged[s.used] = o.Len() - 1
			s.used++
		} else {
			*ch = Charge{}
		}
		if settled {
			o.settle(SourceNotAsked, s)
			break
		}
	}
	if o.abandonIfEnded(ctx) || o.verdict != Allowed || s.used == 0 {
		return
	}
	if err := take(ctx, l.backend, s.charges[:s.used], s.decisions[:s.used]); err != nil {
		if !o.abandonIfEnded(ctx) {
			l.survive(ctx, err, s, o)
		}
		return
	}
	for i, at := range s.charged[:s.used] {
		o.answer(at, &s.decisions[i])
	}
}

// abandonIfEnded makes o abandoned, and returns true, if ctx has ended.
func (o *Outcome) abandonIfEnded(ctx context.Context) bool {
	err := ctx.Err()
	if err != nil {
		*o = Outcome{verdict: Abandoned, err: err}
	}
	return err != nil
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

// ask finds what rule charges r and adds the rule to o. It reports whether there
// is a charge to take, and whether the request is settled because the rule could
// not be applied.
func (l *Limiter[R]) ask(rule *compiledRule[R], r R, ch *Charge, o *Outcome) (charged, settled bool) {
	ch.Scope, ch.Limit, ch.Cost = rule.scope, rule.Limit, 1
	err := rule.charge(r, ch)
	if err != nil && errors.Is(err, errDoesNotApply) {
		return false, false
	}
	d := o.grow()
	d.rule, d.limit = &rule.ruleIdentity, rule.limit
	if err == nil {
		d.key, d.cost = ch.Key, ch.Cost
		if rule.LimitFor != nil {
			d.limit = unique.Make(ch.Limit)
		}
		return true, false
	}
	o.err = errors.Join(o.err, fmt.Errorf("core: rule %q: %w", rule.name, err))
	if rule.OnFailure == FailOpen {
		d.Decision = uncounted(SourceOpen)
		return false, false
	}
	d.Decision = uncounted(SourceClosed)
	o.verdict = Unavailable
	return false, true
}

// charge fills in what the functions of rule find in r. A panic in one of them
// is an error like any other.
func (rule *compiledRule[R]) charge(r R, ch *Charge) (err error) {
	part, done := "key", false
	defer func() {
		if !done {
			err = fmt.Errorf("%s: panic: %v", part, recover())
		}
	}()
	ch.Key, err = rule.find(r)
	if err == nil && rule.LimitFor != nil {
		part = "limit"
		if ch.Limit, err = rule.LimitFor(r); err == nil {
			err = ch.Limit.Validate()
		}
	}
	if err == nil && rule.Cost != nil {
		part = "cost"
		if ch.Cost = rule.Cost(r); ch.Cost < 0 {
			err = fmt.Errorf("must not be negative (got %d)", ch.Cost)
		}
	}
	done = true
	if err == nil || errors.Is(err, errDoesNotApply) {
		return err
	}
	return fmt.Errorf("%s: %w", part, err)
}

// find calls rule.Key. A request without the key has the reserved key "".
func (rule *compiledRule[R]) find(r R) (string, error) {
	key, err := rule.Key(r)
	if err != nil && errors.Is(err, ErrAbsent) {
		return "", nil
	}
	return key, err
}

// take calls b.Take and turns a panic in it into an error. What b does not
// decide is denied.
func take(ctx context.Context, b Backend, charges []Charge, out []Decision) (err error) {
	clear(out)
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("core: backend %T: panic: %v", b, v)
		}
	}()
	return b.Take(ctx, charges, out)
}
