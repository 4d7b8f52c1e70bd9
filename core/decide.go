package core

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// scratch is the working memory of one decision, besides its outcome, pooled.
type scratch struct {
	charges   []backends.Charge
	decisions []limits.Decision
	charged   []int    // index in the outcome of each charge
	used      int      // charges filled in
	local     *scratch // of the charges of rules that are Local; nil: there are none
}

func newScratch(n int) *scratch {
	return &scratch{charges: make([]backends.Charge, n), decisions: make([]limits.Decision, n), charged: make([]int, n)}
}

func (s *scratch) clear() {
	clear(s.charges[:s.used])
	s.used = 0
}

// Decide decides r against all rules as one atomic step and takes what it costs
// if it is allowed. It never fails: what goes wrong is part of the outcome.
func (limiter *Limiter[R]) Decide(ctx context.Context, r R) (o Outcome) {
	limiter.DecideInto(ctx, r, &o)
	return o
}

// DecideInto is Decide with a place for the outcome. What o held before is lost. It saves a copy of the
// outcome, a tenth of the time. It reports whether the request has something to end, so that
// [Outcome.End] matters.
func (limiter *Limiter[R]) DecideInto(ctx context.Context, r R, o *Outcome) (ends bool) {
	l := limiter.current.Load()
	o.reset(Allowed, l.revision)
	if l.fast != nil {
		l.decideOne(ctx, r, o)
	} else if !o.abandonIfEnded(ctx) {
		l.decide(ctx, r, o)
		if l.ledger != nil && o.verdict == Allowed {
			l.begin(ctx, r, o)
			return o.request != nil
		}
	}
	if l.observe != nil {
		l.observe.ObserveDecision(ctx, r, *o)
	}
	return false
}

// decideOne is decide for a rule that a memory decides by itself. That takes half the time: no charge
// is written down, and one defer is for all.
func (l *ruleSet[R]) decideOne(ctx context.Context, r R, o *Outcome) {
	rule := &l.rules[0]
	returned := false
	defer func() {
		if !returned {
			l.failOne(ctx, rule.failed(failure.Key, &failure.Panic{Value: recover()}), o)
		}
	}()
	key, err := rule.Key(r)
	returned = true
	if err != nil {
		key, err = rule.keyError(err)
	}
	if err != nil || ctx.Err() != nil {
		l.failOne(ctx, err, o)
		return
	}
	d := &o.first[0]
	o.n = 1
	d.charge(&rule.ruleIdentity, key, 1)
	if l.fast.TakeInto(&d.Decision, key, 1) != nil {
		l.takeOne(ctx, key, o)
	} else if !d.Allowed {
		o.verdict = Denied
	}
}

// failOne records that the key function of the only rule failed with err, or that ctx has ended.
func (l *ruleSet[R]) failOne(ctx context.Context, err error, o *Outcome) {
	if rule := &l.rules[0]; !o.abandonIfEnded(ctx) {
		l.failRule(rule, &rule.ruleIdentity, err, o)
	}
}

// takeOne asks the backend for the only charge of a request, where l.fast could not decide it.
func (l *ruleSet[R]) takeOne(ctx context.Context, key string, o *Outcome) {
	s := l.scratch.Get().(*scratch)
	defer l.release(s)
	rule := &l.rules[0]
	s.charges[0], s.charged[0], s.used = backends.Charge{Scope: rule.scope, Key: key, Limit: rule.Limit, Cost: 1}, 0, 1
	l.take(ctx, s, o)
}

// begin gives o, which is allowed, an end, and ends it if the Observer does not return.
func (l *ruleSet[R]) begin(ctx context.Context, r R, o *Outcome) {
	l.ledger.begin(o)
	if l.observe == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			o.End(Result{Panicked: true})
		}
	}()
	l.observe.ObserveDecision(ctx, r, *o)
	returned = true
}

func (l *ruleSet[R]) release(s *scratch) {
	s.clear()
	if s.local != nil {
		s.local.clear()
	}
	l.scratch.Put(s)
}

func (l *ruleSet[R]) decide(ctx context.Context, r R, o *Outcome) {
	s := l.scratch.Get().(*scratch)
	defer l.release(s)
	l.charge(r, s, o)
	switch {
	case o.abandonIfEnded(ctx) || o.verdict != Allowed:
	case s.local != nil && s.local.used > 0:
		l.takeWithLocal(ctx, s, o)
	case s.used > 0:
		l.take(ctx, s, o)
	}
}

// charge adds to o what its rules charge r, and fills s with the charges.
func (l *ruleSet[R]) charge(r R, s *scratch, o *Outcome) {
	all := s
	for i := range l.rules {
		rule := &l.rules[i]
		s := all
		if rule.Local && s.local != nil {
			s = s.local
		}
		ch := &s.charges[s.used]
		ch.Scope, ch.Limit, ch.Cost, ch.Lasts = rule.scope, rule.Limit, 1, rule.lasts
		err := rule.find(r, ch)
		identity := rule.as(ch.Key)
		if err != nil {
			*ch = backends.Charge{}
			if l.failRule(rule, identity, err, o) {
				l.markNotAsked(all, o)
				break
			}
			continue
		}
		ch.Shadow = identity.mode == Shadow
		o.charge(identity, ch.Key, ch.Cost)
		if rule.varies {
			o.At(o.Len() - 1).limit = intern(&ch.Limit)
		}
		s.charged[s.used] = o.Len() - 1
		s.used++
	}
}

// markNotAsked records that the backend was asked for no charge of s.
func (l *ruleSet[R]) markNotAsked(s *scratch, o *Outcome) {
	o.markAll(limits.SourceNotAsked, s)
	if s.local != nil {
		o.markAll(limits.SourceNotAsked, s.local)
	}
}

// as returns the identity that rule has for a key: enforced, or a shadow.
func (rule *compiledRule[R]) as(key string) *ruleIdentity {
	if rule.Mode == Enforce || rule.Mode > 0 && rule.Mode.enforces(shareHash(rule.name, key)) {
		return &rule.ruleIdentity
	}
	return &rule.shadowed
}

// take asks the backend to decide the charges of s.
func (l *ruleSet[R]) take(ctx context.Context, s *scratch, o *Outcome) {
	charges, decisions := s.charges[:s.used], s.decisions[:s.used]
	own := l.ownEndings(charges)
	err := call.Take(ctx, l.backend, charges, decisions)
	if own != nil && err == nil {
		err = l.takeAfter(ctx, own, charges, decisions)
	}
	if err != nil {
		if !o.abandonIfEnded(ctx) && !o.abandonIfDue(ctx) {
			l.decideWithoutBackend(ctx, err, s, o)
		}
		return
	}
	for i, at := range s.charged[:s.used] {
		o.record(at, &s.decisions[i])
	}
}

// ownEndingsWait is how long a denied request waits for endings of its key that this process has
// not had answered.
const ownEndingsWait = 50 * time.Millisecond

// ownEndings returns the endings of this process, of the keys of charges, that the backend has
// not answered. They are noted before the charges are taken: an ending that is answered while
// the denial is on its way would be missed afterwards.
func (l *ruleSet[R]) ownEndings(charges []backends.Charge) []endings.Awaited {
	if l.endings == nil {
		return nil
	}
	return l.endings.primary.Pending(charges)
}

// takeAfter asks once more where a key is denied that has had endings of this process: a client
// that sends one request after the other must not be denied by its own last one. It waits for
// their answers, for ownEndingsWait at most.
func (l *ruleSet[R]) takeAfter(
	ctx context.Context, own []endings.Awaited, charges []backends.Charge, decisions []limits.Decision,
) error {
	own = slices.DeleteFunc(own, func(a endings.Awaited) bool { return decisions[a.Charge].Allowed })
	if len(own) == 0 {
		return nil
	}
	l.endings.primary.Await(ctx, ownEndingsWait, own)
	return call.Take(ctx, l.backend, charges, decisions)
}

// failRule adds to o a rule whose functions failed with err. It adds nothing if the key function
// says that the rule does not apply. It reports whether the request is then unavailable.
func (l *ruleSet[R]) failRule(rule *compiledRule[R], identity *ruleIdentity, err error, o *Outcome) bool {
	if _, failed := err.(*failure.Error); !failed && errors.Is(err, ErrDoesNotApply) {
		return false
	}
	d := o.charge(identity, "", 0)
	o.err = errors.Join(o.err, err)
	if rule.OnFailure == FailOpen {
		*d = uncounted(limits.SourceOpen)
		return false
	}
	*d = uncounted(limits.SourceClosed)
	if identity.mode == Shadow {
		return false
	}
	o.verdict = Unavailable
	return true
}
