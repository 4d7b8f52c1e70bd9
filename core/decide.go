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

// scratch is the working memory of one decision. It is pooled.
type scratch struct {
	charges   []backends.Charge
	decisions []limits.Decision
	charged   []int    // of each charge: the index of its rule in the outcome
	used      int      // how many charges are filled in
	local     *scratch // for the charges of Local rules; nil: no rule is Local
}

func newScratch(n int) *scratch {
	return &scratch{charges: make([]backends.Charge, n), decisions: make([]limits.Decision, n),
		charged: make([]int, n)}
}

func (s *scratch) clear() {
	clear(s.charges[:s.used])
	s.used = 0
}

// Decide decides r against all rules as one atomic step, and takes its costs if it is allowed. It
// never fails: failures are part of the outcome.
func (l *Limiter[R]) Decide(ctx context.Context, r R) (o Outcome) {
	l.DecideInto(ctx, r, &o)
	return o
}

// DecideInto is Decide that overwrites o with the outcome, which saves a copy, a tenth of the time.
// It returns true if the caller must call [Outcome.End].
func (l *Limiter[R]) DecideInto(ctx context.Context, r R, o *Outcome) (ends bool) {
	set := l.current.Load()
	o.reset(Allowed, set.revision)
	if set.fast != nil {
		set.decideOne(ctx, r, o)
	} else if !o.abandonIfEnded(ctx) {
		set.decide(ctx, r, o)
		if set.ledger != nil && o.verdict == Allowed {
			set.begin(ctx, r, o)
			return o.request != nil
		}
	}
	if set.observe != nil {
		set.observe.ObserveDecision(ctx, r, *o)
	}
	return false
}

// decideOne is decide for one rule that a Memory decides. It takes half the time: it writes no
// charge, and one defer serves all steps.
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

// failOne records that ctx has ended, or that the key function of the only rule failed with err.
func (l *ruleSet[R]) failOne(ctx context.Context, err error, o *Outcome) {
	if rule := &l.rules[0]; !o.abandonIfEnded(ctx) {
		l.failRule(rule, &rule.ruleIdentity, err, o)
	}
}

// takeOne asks the backend for the only charge of a request, after l.fast failed to decide it.
func (l *ruleSet[R]) takeOne(ctx context.Context, key string, o *Outcome) {
	s := l.scratch.Get().(*scratch)
	defer l.release(s)
	rule := &l.rules[0]
	s.charges[0] = backends.Charge{Scope: rule.scope, Key: key, Limit: rule.Limit, Cost: 1}
	s.charged[0], s.used = 0, 1
	l.take(ctx, s, o)
}

// begin begins the request of o, which is allowed, in the ledger. It ends the request if the
// Observer panics or exits.
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

// charge adds the rules that apply to r to o, and their charges to s.
func (l *ruleSet[R]) charge(r R, s *scratch, o *Outcome) {
	for i := range l.rules {
		rule := &l.rules[i]
		to := s
		if rule.Local && s.local != nil {
			to = s.local
		}
		ch := &to.charges[to.used]
		ch.Scope, ch.Limit, ch.Cost, ch.Lasts = rule.scope, rule.Limit, 1, rule.lasts
		err := rule.find(r, ch)
		identity := rule.as(ch.Key)
		if err != nil {
			*ch = backends.Charge{}
			if l.failRule(rule, identity, err, o) {
				l.markNotAsked(s, o)
				break
			}
			continue
		}
		ch.Shadow = identity.mode == Shadow
		o.charge(identity, ch.Key, ch.Cost)
		if rule.varies {
			o.At(o.Len() - 1).limit = intern(&ch.Limit)
		}
		to.charged[to.used] = o.Len() - 1
		to.used++
	}
}

// markNotAsked records that no backend was asked for the charges of s.
func (l *ruleSet[R]) markNotAsked(s *scratch, o *Outcome) {
	o.markAll(limits.SourceNotAsked, s)
	if s.local != nil {
		o.markAll(limits.SourceNotAsked, s.local)
	}
}

// as returns the identity of rule for a key: enforced or shadow.
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

// ownEndingsWait is how long a denied request waits until the backend has answered endings of its
// keys from this process.
const ownEndingsWait = 50 * time.Millisecond

// ownEndings returns the endings of this process, on the keys of charges, that the backend has not
// answered. It is called before the charges are taken: afterwards it would miss an ending that was
// answered while the denial was on its way.
func (l *ruleSet[R]) ownEndings(charges []backends.Charge) []endings.Awaited {
	if l.endings == nil {
		return nil
	}
	return l.endings.primary.Pending(charges)
}

// takeAfter asks again if a denied key had unanswered endings of this process. It first waits for
// their answers, at most ownEndingsWait. So a client that sends one request after the other is not
// denied because of its own last request.
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

// failRule adds a rule to o whose functions failed with err. If err is ErrDoesNotApply, it adds
// nothing. It returns true if the request is unavailable because of the failure.
func (l *ruleSet[R]) failRule(rule *compiledRule[R], identity *ruleIdentity, err error,
	o *Outcome) bool {
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
