package core

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Explain returns the outcome that r would have now, and takes nothing. As with [backends.Peeker],
// Remaining is what is left without the request. Explain asks neither a denial cache nor the
// fallback: if the backend fails, or is no Peeker, the outcome is Unavailable and its Err says why.
// Explain does not call the Observer.
func (l *Limiter[R]) Explain(ctx context.Context, r R) Outcome {
	return l.current.Load().explain(ctx, r, false)
}

// Peek is Explain that asks for every rule. If a Local rule denies r, Explain asks for no rule of
// the backend, as Decide does, and says nothing about these.
func (l *Limiter[R]) Peek(ctx context.Context, r R) Outcome {
	return l.current.Load().explain(ctx, r, true)
}

// PeekEach is Peek for each of requests, by the rules that are in force when the first is asked
// for. A Replace meanwhile changes no later outcome, so all are about one list of rules. A request
// may be used again for the next.
func (l *Limiter[R]) PeekEach(ctx context.Context, requests iter.Seq[R]) iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		set := l.current.Load()
		for r := range requests {
			if !yield(set.explain(ctx, r, true)) {
				return
			}
		}
	}
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
func (l *ruleSet[R]) peek(ctx context.Context, b backends.Backend, source limits.Source,
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

// ExplainKey returns the decision that a request of one unit would have now under a rule and a key,
// and takes nothing. Under a limit that counts values, the request has a new value. The key is a
// result of the rule's Key. limit is the limit of the key if the rule has a LimitFor; otherwise
// pass the zero Limit. It returns an error if there is no such rule, it has no limit, or the
// backend fails.
func (l *Limiter[R]) ExplainKey(ctx context.Context, rule, key string,
	limit limits.Limit) (limits.Decision, error) {
	set := l.current.Load()
	i := slices.IndexFunc(set.rules, func(r compiledRule[R]) bool { return r.name == rule })
	if i < 0 {
		return limits.Decision{}, fmt.Errorf(
			"core: explain: there is no rule %q, or it is disabled", rule)
	}
	found := &set.rules[i]
	if limit == (limits.Limit{}) {
		if limit = found.Limit; found.varies {
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
		charge.Value = rand.Text() // a new one
	}
	if err := call.Peek(ctx, b, []backends.Charge{charge}, out); err != nil {
		return limits.Decision{}, err
	}
	out[0].Source, out[0].Delay = source, found.delay(out[0].Delay)
	return out[0], nil
}

// State is a snapshot of a limiter and its counters, for pages, gauges and logs.
type State struct {
	Rules []RuleState // in force, in the order of [Config].Rules, with disabled rules

	// Held is how many units of concurrency limits the requests in flight hold. HeldSince is the
	// instant of the decision on the oldest request in flight that has an end, by the clock of its
	// backend; the zero Time without one. If the number only rises, or the instant is long ago, the
	// program forgets to call [Outcome.End].
	Held      int
	HeldSince time.Time

	// Waiting is how many requests wait for their turn in a leaky queue. QueueFull is how many were
	// refused with [ErrQueueFull], and QueueLeft how many ended while they waited. The rules had
	// allowed these requests.
	Waiting              int
	QueueFull, QueueLeft int64

	// Instances is by how much a fallback would divide limits now: [Config].Instances, or the number
	// that Backend counts if that is larger. 0: neither is known, and limits stay whole.
	Instances int

	// Preflights is how many requests that look like CORS preflights an adapter's SkipPreflight let
	// pass without a decision.
	Preflights int64
}

// RuleState is a rule in force, for pages, gauges and logs. In JSON, limits and modes are texts,
// and most zero fields are omitted.
type RuleState struct {
	Name      string
	Scope     string
	KeyName   string       `json:",omitzero"` // see [Rule].KeyName
	Limit     limits.Limit `json:",omitzero"` // zero if LimitFor finds it
	Mode      Mode
	Local     bool     `json:",omitzero"`
	DenyAs503 bool     `json:",omitzero"` // see [Rule].DenyAs503
	Override  Override `json:",omitzero"` // zero: none is in force

	// GivenLimit and GivenMode are those of [New] or the last Replace. They differ from Limit and
	// Mode while an override is in force on this rule, or on a rule of its scope.
	GivenLimit limits.Limit `json:",omitzero"`
	GivenMode  Mode
}

// State returns a snapshot of the limiter and its counters.
func (l *Limiter[R]) State() State {
	l.change.Lock()
	ledger := l.ledger
	l.change.Unlock()
	counted, _ := call.Instances(l.backend) // a panic is an error of the next fallback
	s := State{
		Rules:     l.rules(),
		Instances: max(l.config.Instances, counted),
		Waiting:   int(l.room.waiting.Load()),
		QueueFull: l.room.full.Load(),
		QueueLeft: l.room.left.Load(),
	}
	if ledger != nil {
		s.Held, s.HeldSince = ledger.held()
	}
	return s
}

// rules returns the rules in force, in the order of [Config].Rules, with disabled rules.
func (l *Limiter[R]) rules() []RuleState {
	l.change.Lock()
	defer l.change.Unlock()
	var states []RuleState
	for i, rule := range overridden(l.config.Rules, l.overrides) {
		given := &l.config.Rules[i]
		state := RuleState{
			Name: rule.Name, Scope: rule.scopeOrName(), KeyName: rule.KeyName, Limit: rule.Limit,
			Mode:  rule.Mode,
			Local: rule.Local, DenyAs503: rule.DenyAs503,
			GivenLimit: given.Limit, GivenMode: given.Mode,
		}
		if o := l.overrides[rule.Name]; o != nil {
			state.Override = o.Override.clone()
		}
		states = append(states, state)
	}
	return states
}
