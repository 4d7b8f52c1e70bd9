package core

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/internal/ground/endings"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/internal/ground/turns"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// ruleSet is the compiled rules. It never changes; a change of rules makes a new one. One ruleSet
// decides a request from start to end.
type ruleSet[R any] struct {
	rules     []compiledRule[R] // without disabled rules
	backend   backends.Backend
	fallback  func() backends.Backend
	instances int
	revision  int32
	observe   Observer
	scratch   sync.Pool      // of *scratch
	fast      *memory.Bound  // decides the only rule; nil: there is no fast path
	ledger    *ledger        // nil: no rule has an end
	endings   *ledger        // of these or earlier rules; nil: no rule had an end so far
	local     *memory.Memory // nil: no rule is Local, or backend is in this process
	turns     *turns.Table   // nil: denied requests are promised nothing
}

// closedRetryAfter is the RetryAfter of a rule that cannot decide.
const closedRetryAfter = time.Second

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

// findFastPath returns the fast path of set, or nil. A limiter has one if its only rule has a fixed
// limit, costs 1 and has no end, and its backend is a Memory.
func (set *ruleSet[R]) findFastPath() *memory.Bound {
	if len(set.rules) != 1 || set.rules[0].Mode != Enforce {
		return nil
	}
	rule := &set.rules[0]
	m, ok := set.backend.(*memory.Memory)
	if !ok || rule.varies || rule.Cost != nil || rule.NoDelay != 0 || set.ledger != nil {
		return nil
	}
	keys, err := m.Bind(rule.scope, rule.Limit)
	if err != nil {
		return nil
	}
	return keys
}

// decideOne is decide for one rule that a Memory decides. It takes half the time: it writes no
// charge, and one defer serves all steps.
func (set *ruleSet[R]) decideOne(ctx context.Context, r R, o *Outcome) {
	rule := &set.rules[0]
	returned := false
	defer func() {
		if !returned {
			set.failOne(ctx, rule.failed(failure.Key, &failure.Panic{Value: recover()}), o)
		}
	}()
	key, err := rule.Key(r)
	returned = true
	if err != nil {
		key, err = rule.keyError(err)
	}
	if err != nil || ctx.Err() != nil {
		set.failOne(ctx, err, o)
		return
	}
	d := &o.first[0]
	o.n = 1
	d.charge(&rule.ruleIdentity, key, 1)
	if set.fast.TakeInto(&d.Decision, key, 1) != nil {
		set.takeOne(ctx, key, o)
	} else if !d.Allowed {
		o.verdict = Denied
	}
}

// failOne records that ctx has ended, or that the key function of the only rule failed with err.
func (set *ruleSet[R]) failOne(ctx context.Context, err error, o *Outcome) {
	if rule := &set.rules[0]; !o.abandonIfEnded(ctx) {
		set.failRule(rule, &rule.ruleIdentity, err, o)
	}
}

// takeOne asks the backend for the only charge of a request, after set.fast failed to decide it.
func (set *ruleSet[R]) takeOne(ctx context.Context, key string, o *Outcome) {
	s := set.scratch.Get().(*scratch)
	defer set.release(s)
	rule := &set.rules[0]
	s.charges[0] = backends.Charge{Scope: rule.scope, Key: key, Limit: rule.Limit, Cost: 1}
	s.charged[0], s.used = 0, 1
	set.take(ctx, s, o)
}

// begin begins the request of o, which is allowed, in the ledger. It ends the request if the
// Observer panics or exits.
func (set *ruleSet[R]) begin(ctx context.Context, r R, o *Outcome) {
	set.ledger.begin(o)
	if set.observe == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			o.End(Result{Panicked: true})
		}
	}()
	set.observe.ObserveDecision(ctx, r, *o)
	returned = true
}

func (set *ruleSet[R]) release(s *scratch) {
	s.clear()
	if s.local != nil {
		s.local.clear()
	}
	set.scratch.Put(s)
}

func (set *ruleSet[R]) decide(ctx context.Context, r R, o *Outcome) {
	s := set.scratch.Get().(*scratch)
	defer set.release(s)
	set.charge(r, s, o)
	switch {
	case o.abandonIfEnded(ctx) || o.verdict != Allowed:
	case s.local != nil && s.local.used > 0:
		set.takeWithLocal(ctx, s, o)
	case s.used > 0:
		set.take(ctx, s, o)
	}
}

// charge adds the rules that apply to r to o, and their charges to s.
func (set *ruleSet[R]) charge(r R, s *scratch, o *Outcome) {
	for i := range set.rules {
		rule := &set.rules[i]
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
			if set.failRule(rule, identity, err, o) {
				set.markNotAsked(s, o)
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
func (set *ruleSet[R]) markNotAsked(s *scratch, o *Outcome) {
	o.markAll(limits.SourceNotAsked, s)
	if s.local != nil {
		o.markAll(limits.SourceNotAsked, s.local)
	}
}

// take asks the backend to decide the charges of s.
func (set *ruleSet[R]) take(ctx context.Context, s *scratch, o *Outcome) {
	charges, decisions := s.charges[:s.used], s.decisions[:s.used]
	own := set.ownEndings(charges)
	err := call.Take(ctx, set.backend, charges, decisions)
	if own != nil && err == nil {
		err = set.takeAfter(ctx, own, charges, decisions)
	}
	if err != nil {
		if !o.abandonIfEnded(ctx) && !o.abandonIfDue(ctx) {
			set.decideWithoutBackend(ctx, err, s, o)
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
func (set *ruleSet[R]) ownEndings(charges []backends.Charge) []endings.Awaited {
	if set.endings == nil {
		return nil
	}
	return set.endings.primary.Pending(charges)
}

// takeAfter asks again if a denied key had unanswered endings of this process. It first waits for
// their answers, at most ownEndingsWait. So a client that sends one request after the other is not
// denied because of its own last request.
func (set *ruleSet[R]) takeAfter(
	ctx context.Context, own []endings.Awaited, charges []backends.Charge, decisions []limits.Decision,
) error {
	own = slices.DeleteFunc(own, func(a endings.Awaited) bool { return decisions[a.Charge].Allowed })
	if len(own) == 0 {
		return nil
	}
	set.endings.primary.Await(ctx, ownEndingsWait, own)
	return call.Take(ctx, set.backend, charges, decisions)
}

// failRule adds a rule to o whose functions failed with err. If err is ErrDoesNotApply, it adds
// nothing. It returns true if the request is unavailable because of the failure.
func (set *ruleSet[R]) failRule(rule *compiledRule[R], identity *ruleIdentity, err error,
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

// takeWithLocal decides Local rules first, by the memory of this process. If they allow, the
// backend decides the other rules. If these do not allow the request, the local units are returned.
func (set *ruleSet[R]) takeWithLocal(ctx context.Context, s *scratch, o *Outcome) {
	local := s.local
	charges, decisions := local.charges[:local.used], local.decisions[:local.used]
	clear(decisions)
	if err := set.local.Take(ctx, charges, decisions); err != nil {
		set.unavailable(err, s, o)
		return
	}
	for i, at := range local.charged[:local.used] {
		decisions[i].Source = limits.SourceLocal
		o.record(at, &decisions[i])
	}
	if o.verdict != Allowed {
		o.markAll(limits.SourceNotAsked, s)
		return
	}
	if s.used == 0 {
		return
	}
	returned := false
	defer func() { // a panic must not keep the units
		if !returned || o.verdict != Allowed {
			set.returnLocal(charges, decisions)
		}
	}()
	set.take(ctx, s, o)
	returned = true
}

// unavailable makes o unavailable because the memory of this process refused the charges with err.
func (set *ruleSet[R]) unavailable(err error, s *scratch, o *Outcome) {
	o.verdict, o.err = Unavailable, errors.Join(o.err, &failure.Error{Part: failure.Backend, Err: err})
	o.markAll(limits.SourceClosed, s.local)
	o.markAll(limits.SourceNotAsked, s)
}

// returnLocal returns the units that the memory of this process took for a request that was not
// allowed.
func (set *ruleSet[R]) returnLocal(charges []backends.Charge, decisions []limits.Decision) {
	endings := make([]backends.Ending, 0, len(charges))
	for i := range charges {
		ch := &charges[i]
		if ch.Cost > 0 && decisions[i].Allowed {
			endings = append(endings, call.ReturnOf(ch, &decisions[i]))
		}
	}
	_ = set.local.Settle(context.Background(), endings, make([]limits.Settlement, len(endings)))
}

// decideWithoutBackend decides the charges of s by each rule's OnFailure, after the backend failed
// with err. If a rule fails closed, the request is unavailable and takes nothing. Otherwise the
// fallback decides the rules that fall back, in one step, and the other rules allow.
func (set *ruleSet[R]) decideWithoutBackend(ctx context.Context, err error, s *scratch,
	o *Outcome) {
	o.err = errors.Join(o.err, &failure.Error{Part: failure.Backend, Err: err})
	local := 0
	for _, at := range s.charged[:s.used] {
		switch policy(o, at) {
		case FailClosed:
			if o.At(at).rule.mode == Enforce {
				set.makeUnavailable(FailClosed, s, o)
				return
			}
		case FallBack:
			local++
		}
	}
	set.markWithoutBackend(s, o)
	if local == 0 {
		return
	}
	if err := set.fallBack(ctx, s, o); err != nil {
		if o.abandonIfEnded(ctx) {
			return
		}
		o.err = errors.Join(o.err, &failure.Error{Part: failure.Fallback, Err: err})
		set.makeUnavailable(FallBack, s, o)
	}
}

// policy returns the OnFailure of rule at of o.
func policy(o *Outcome, at int) FailurePolicy { return o.At(at).rule.onFailure }

// markWithoutBackend records the decisions of the rules that do not fall back. The rules that fail
// closed here are shadows.
func (set *ruleSet[R]) markWithoutBackend(s *scratch, o *Outcome) {
	for _, at := range s.charged[:s.used] {
		source := limits.SourceOpen
		if policy(o, at) == FailClosed {
			source = limits.SourceClosed
		}
		o.At(at).Decision = uncounted(source)
	}
}

// makeUnavailable makes o unavailable because of the rules of s whose OnFailure is why, and marks
// the other rules of s SourceNotAsked. If all rules whose OnFailure is why are shadows, it marks
// only these.
//
// After a failure of the fallback, s has only the rules that fall back. So rules that fail open
// stay SourceOpen: they would have allowed the request.
func (set *ruleSet[R]) makeUnavailable(why FailurePolicy, s *scratch, o *Outcome) {
	charged := s.charged[:s.used]
	for _, at := range charged {
		if answered := o.At(at); policy(o, at) == why {
			answered.Decision = uncounted(limits.SourceClosed)
			if answered.rule.mode == Enforce {
				o.verdict = Unavailable
			}
		}
	}
	if o.verdict != Unavailable {
		return
	}
	for _, at := range charged {
		if policy(o, at) != why {
			o.At(at).Decision = uncounted(limits.SourceNotAsked)
		}
	}
}

// fallBack asks the fallback to decide the charges of the rules that fall back.
func (set *ruleSet[R]) fallBack(ctx context.Context, s *scratch, o *Outcome) error {
	counted, err := call.Instances(set.backend)
	if err != nil {
		return err
	}
	instances, n := max(set.instances, counted), 0
	for i, at := range s.charged[:s.used] {
		if policy(o, at) != FallBack {
			continue
		}
		ch := s.charges[i]
		ch.Limit = ch.Limit.Share(instances)
		s.charges[n], s.charged[n] = ch, at
		n++
	}
	clear(s.charges[n:s.used])
	s.used = n
	if err := call.Take(ctx, set.fallback(), s.charges[:n], s.decisions[:n]); err != nil {
		return err
	}
	for i, at := range s.charged[:n] {
		d := &s.decisions[i]
		d.Source = limits.SourceFallback
		o.At(at).limit = intern(&s.charges[i].Limit)
		o.record(at, d)
	}
	return nil
}

// explain returns the outcome that r would have. If every is set, it also asks the backend for its
// rules after a Local rule has denied r.
func (set *ruleSet[R]) explain(ctx context.Context, r R, every bool) (o Outcome) {
	o.reset(Allowed, set.revision)
	if o.abandonIfEnded(ctx) {
		return o
	}
	s := set.scratch.Get().(*scratch)
	defer set.release(s)
	set.charge(r, s, &o)
	if o.abandonIfEnded(ctx) || o.verdict != Allowed {
		return o
	}
	if s.local != nil {
		set.peek(ctx, set.local, limits.SourceLocal, s.local, &o)
	}
	switch {
	case o.verdict == Allowed, o.verdict == Denied && every:
		set.peek(ctx, set.backend, limits.SourcePrimary, s, &o)
	case o.verdict == Abandoned: // o has no rules then
	default:
		o.markAll(limits.SourceNotAsked, s)
	}
	return o
}

// peek asks b to decide the charges of s without taking.
func (set *ruleSet[R]) peek(ctx context.Context, b backends.Backend, source limits.Source,
	s *scratch, o *Outcome) {
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

// explainKey is [Limiter.ExplainKey].
func (set *ruleSet[R]) explainKey(ctx context.Context, rule, key string,
	limit limits.Limit) (limits.Decision, error) {
	i := slices.IndexFunc(set.rules, func(r compiledRule[R]) bool { return r.name == rule })
	if i < 0 {
		return limits.Decision{}, fmt.Errorf(
			"core: explain: there is no rule %q, or it is disabled", rule)
	}
	found := &set.rules[i]
	if limit == (limits.Limit{}) {
		var ok bool
		if limit, ok = found.byKey[key]; !ok {
			limit = found.Limit
		}
		if !ok && found.LimitFor != nil {
			return limits.Decision{}, fmt.Errorf(
				"core: explain: rule %q: limit: is missing: pass the limit of the key", rule)
		}
	}
	if err := limit.Validate(); err != nil {
		return limits.Decision{}, prefixEach(fmt.Sprintf("core: explain: rule %q: limit: ", rule), err)
	}
	b, source := set.backend, limits.SourcePrimary
	if found.Local && set.local != nil {
		b, source = set.local, limits.SourceLocal
	}
	out := make([]limits.Decision, 1)
	charge := backends.Charge{Scope: found.scope, Key: key, Limit: limit, Cost: 1}
	if countsValues(limit) {
		charge.Value = rand.Uint64() // a new one
	}
	if err := call.Peek(ctx, b, []backends.Charge{charge}, out); err != nil {
		return limits.Decision{}, err
	}
	out[0].Source, out[0].Delay = source, found.delay(out[0].Delay)
	return out[0], nil
}

// promise promises o, which is denied, a turn: the latest of those of the rules that deny.
func (set *ruleSet[R]) promise(o *Outcome) {
	denials, instances := set.turns.Of(), set.promisers()
	for i := range o.Len() {
		d := o.At(i)
		if !d.denies() {
			continue
		}
		denial := turns.Denial{Scope: d.rule.scope, Key: d.Key, Limit: *d.limit, Cost: d.Cost,
			At: d.At, Wait: d.RetryAfter}
		for j := range o.Len() { // rules that count together
			if e := o.At(j); j != i && e.denies() && e.Key == d.Key && e.rule.scope == d.rule.scope {
				denial.Cost += e.Cost
			}
		}
		if d.Source < limits.SourceFallback { // a fallback decides by the share of this process
			denial.Instances = instances
		}
		denials.Add(&denial)
	}
	if turn := denials.Promise(); turn > o.RetryAfter() {
		o.turn = int32((turn + time.Millisecond - 1) / time.Millisecond) // at most a day
	}
}

// promisers returns how many processes promise turns of the backend's limits.
func (set *ruleSet[R]) promisers() int {
	if backends.IsInProcess(set.backend) {
		return 1
	}
	counted, _ := call.Instances(set.backend) // a panic is an error of the next fallback
	return max(set.instances, counted)
}
