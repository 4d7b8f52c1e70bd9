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
	if l.lone == nil {
		l.decide(ctx, r, &o)
	} else { // the same for one rule, in two thirds of the time
		rule := &l.rules[0]
		key, err := rule.key(r)
		switch {
		case o.abandonIfEnded(ctx):
		case err != nil:
			l.giveUp(rule, err, &o)
		default:
			d := o.charge(&rule.ruleIdentity, key, 1)
			if !l.lone.memory.takeOne(l.lone.class, key, 1, d) {
				l.takeLone(ctx, key, &o)
			} else if !d.Allowed {
				o.verdict = Denied
			}
		}
	}
	if l.observe != nil && o.verdict != Abandoned {
		l.observe(ctx, r, o)
	}
	return o
}

// takeLone has the only charge of a request decided the long way.
func (l *Limiter[R]) takeLone(ctx context.Context, key string, o *Outcome) {
	s := l.scratch.Get().(*scratch)
	defer l.release(s)
	rule := &l.rules[0]
	s.charges[0], s.charged[0], s.used = Charge{Scope: rule.scope, Key: key, Limit: rule.Limit, Cost: 1}, 0, 1
	l.take(ctx, s, o)
}

func (l *Limiter[R]) release(s *scratch) {
	clear(s.charges[:s.used])
	s.used = 0
	l.scratch.Put(s)
}

func (l *Limiter[R]) decide(ctx context.Context, r R, o *Outcome) {
	s := l.scratch.Get().(*scratch)
	defer l.release(s)
	for i := range l.rules {
		rule := &l.rules[i]
		ch := &s.charges[s.used]
		ch.Scope, ch.Limit, ch.Cost = rule.scope, rule.Limit, 1
		if err := rule.find(r, ch); err != nil {
			*ch = Charge{}
			if l.giveUp(rule, err, o) {
				o.settle(SourceNotAsked, s)
				break
			}
			continue
		}
		o.charge(&rule.ruleIdentity, ch.Key, ch.Cost)
		if rule.LimitFor != nil {
			o.at(o.Len() - 1).limit = unique.Make(ch.Limit)
		}
		s.charged[s.used] = o.Len() - 1
		s.used++
	}
	if !o.abandonIfEnded(ctx) && o.verdict == Allowed && s.used > 0 {
		l.take(ctx, s, o)
	}
}

// take has the charges of s decided by the backend.
func (l *Limiter[R]) take(ctx context.Context, s *scratch, o *Outcome) {
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

// charge adds to o a rule that charges cost units to key.
func (o *Outcome) charge(rule *ruleIdentity, key string, cost int64) *Decision {
	d := o.grow()
	d.rule, d.limit, d.key, d.cost = rule, rule.limit, key, cost
	return &d.Decision
}

// giveUp adds to o a rule that could not be applied because of err, unless that
// says that the rule does not apply. It reports whether this settles the
// request.
func (l *Limiter[R]) giveUp(rule *compiledRule[R], err error, o *Outcome) bool {
	if errors.Is(err, ErrDoesNotApply) {
		return false
	}
	d := o.charge(&rule.ruleIdentity, "", 0)
	o.err = errors.Join(o.err, fmt.Errorf("core: rule %q: %w", rule.name, err))
	if rule.OnFailure == FailOpen {
		*d = uncounted(SourceOpen)
		return false
	}
	*d = uncounted(SourceClosed)
	o.verdict = Unavailable
	return true
}

// find fills in what the functions of rule find in r.
func (rule *compiledRule[R]) find(r R, ch *Charge) (err error) {
	ch.Key, err = rule.key(r)
	if err == nil && rule.LimitFor != nil {
		ch.Limit, err = rule.limitFor(r)
	}
	if err == nil && rule.Cost != nil {
		ch.Cost, err = rule.cost(r)
	}
	return err
}

// key calls rule.Key. A request without the key has the reserved key "".
func (rule *compiledRule[R]) key(r R) (key string, err error) {
	returned := false
	defer func() {
		if !returned {
			err = fmt.Errorf("key: panic: %v", recover())
		}
	}()
	key, err = rule.Key(r)
	returned = true
	if err != nil {
		return keyError(err)
	}
	return key, nil
}

func keyError(err error) (string, error) {
	switch {
	case errors.Is(err, ErrAbsent):
		return "", nil
	case errors.Is(err, ErrDoesNotApply):
		return "", err
	}
	return "", fmt.Errorf("key: %w", err)
}

func (rule *compiledRule[R]) limitFor(r R) (limit Limit, err error) {
	returned := false
	defer recovered("limit", &returned, &err)
	limit, err = rule.LimitFor(r)
	returned = true
	if err == nil {
		err = limit.Validate()
	}
	if err == nil && limit.algorithm > AlgorithmSlidingLog && !Supports(rule.backend, limit) {
		err = fmt.Errorf("the backend, a %T, does not decide %s", rule.backend, limit.algorithm.one())
	}
	if err != nil {
		return limit, fmt.Errorf("limit: %w", err)
	}
	return limit, nil
}

func (rule *compiledRule[R]) cost(r R) (cost int64, err error) {
	returned := false
	defer recovered("cost", &returned, &err)
	cost = rule.Rule.Cost(r)
	returned = true
	if cost < 0 {
		return 0, fmt.Errorf("cost: must not be negative (got %d)", cost)
	}
	return cost, nil
}

// recovered, deferred around a call of a rule's function, makes a panic in it
// an error like any other.
func recovered(part string, returned *bool, err *error) {
	if !*returned {
		*err = fmt.Errorf("%s: panic: %v", part, recover())
	}
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
