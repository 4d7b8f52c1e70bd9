package gate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// answering says how to answer the requests that one revision of the rules decided. A request keeps
// the rules that decided it, whatever rules are in force when it is answered.
type answering struct {
	revision int32 // of the rules
	fields   *headers.Writer
	watches  bool     // whether to watch the answers: a rule has a FinalCost
	ends     bool     // a rule has an end
	violated []string // the names of rules in problem documents

	documents sync.Pool // of *document
}

// clone returns options with copies of its slices, which are read at every change of rules.
func clone(options headers.Options) headers.Options {
	options.Formats = slices.Clone(options.Formats)
	options.DiscordScopes = maps.Clone(options.DiscordScopes)
	return options
}

// ruling has the engine, and how the answers to its decisions look. It is safe for concurrent use.
type ruling[R any] struct {
	engine  *core.Limiter[R]
	options headers.Options
	context func(R) context.Context
	newest  atomic.Pointer[answering]
	former  formerAnswerings
}

// preparing is the Observer that a Gate passes to its engine. The engine calls Prepare before rules
// come into force. Decisions and ends go to the embedded Observer.
type preparing[R any] struct {
	core.Observer
	ruling *ruling[R]
}

// Observed returns the Observer of the configuration.
func (p *preparing[R]) Observed() core.Observer { return p.Observer }

// ObserveLimiter does nothing: New passes the Gate itself to the Observer.
func (p *preparing[R]) ObserveLimiter(interface{ State() core.State }) {}

// Prepare makes the answering of rules.
func (p *preparing[R]) Prepare(revision int32, rules []core.Rule[R]) error {
	r := p.ruling
	fields, err := headers.New(r.options, rules)
	if err != nil {
		return &fieldsError{err}
	}
	watches := hasFinalCost(rules)
	a := &answering{revision: revision, fields: fields, watches: watches,
		ends: watches || holds(rules), violated: violated(rules, r.options)}
	if before := r.newest.Load(); before != nil {
		r.former.keep(before) // first: a request that it decided may look for it now
	}
	r.newest.Store(a) // after Prepare the rules are in force
	return nil
}

// answering returns the answering of the rules that decided o.
func (r *ruling[R]) answering(o *core.Outcome) *answering {
	a := r.newest.Load()
	if a.revision == o.Revision() {
		return a
	}
	if former := r.former.of(o.Revision()); former != nil {
		return former
	}
	return &answering{revision: a.revision, fields: a.fields, watches: a.watches, ends: a.ends}
}

// mostFormer is how many changes of rules a request may outlast. A request that outlasts more is
// answered by the newest rules, and no document names its own.
const mostFormer = 64

// formerAnswerings holds the answerings of requests that were decided before the latest change of
// rules.
type formerAnswerings struct {
	mu   sync.Mutex
	ring [mostFormer]*answering // by revision modulo mostFormer
}

func (f *formerAnswerings) keep(a *answering) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ring[a.revision%mostFormer] = a
}

func (f *formerAnswerings) of(revision int32) *answering {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a := f.ring[revision%mostFormer]; a != nil && a.revision == revision {
		return a
	}
	return nil
}

// hasFinalCost reports whether a rule has a FinalCost, which depends on the answer.
func hasFinalCost[R any](rules []core.Rule[R]) bool {
	return slices.ContainsFunc(rules,
		func(rule core.Rule[R]) bool { return rule.FinalCost != nil && rule.Mode != core.Disabled })
}

// holds reports whether a rule has a concurrency limit.
func holds[R any](rules []core.Rule[R]) bool {
	return slices.ContainsFunc(rules, func(rule core.Rule[R]) bool {
		return rule.Limit.Algorithm().Holds() && rule.Mode != core.Disabled
	})
}

// fieldsError is a mistake in the options of the header fields.
type fieldsError struct{ error }

func (e *fieldsError) Unwrap() error { return e.error }

// alsoInFields joins err, which refuses rules, with the mistakes in the options of the header
// fields, unless err has these already.
func (r *ruling[R]) alsoInFields(rules []core.Rule[R], err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*fieldsError](err); ok {
		return err
	}
	return errors.Join(err, headers.Validate(r.options, rules))
}

// Replace puts other rules into force from the next request on, and changes nothing if they have a
// mistake: see [core.Limiter.Replace]. A request is answered by the rules that decided it. Header
// options that name a missing rule are also a mistake.
func (r *ruling[R]) Replace(rules []core.Rule[R]) error {
	return r.alsoInFields(rules, r.engine.Replace(rules))
}

// Override changes one rule in this process until an instant: see
// [core.Limiter.Override].
func (r *ruling[R]) Override(rule string, o core.Override) error { return r.engine.Override(rule, o) }

// OverrideKey changes the limit of one key under one rule in this process until an instant: see
// [core.Limiter.OverrideKey].
func (r *ruling[R]) OverrideKey(rule, key string, o core.Override) error {
	return r.engine.OverrideKey(rule, key, o)
}

// KeyOverrides returns the overrides of keys under one rule: see [core.Limiter.KeyOverrides].
func (r *ruling[R]) KeyOverrides(rule string) map[string]core.Override {
	return r.engine.KeyOverrides(rule)
}

// Explain returns the outcome that request would have now, and takes nothing: see
// [core.Limiter.Explain].
func (r *ruling[R]) Explain(request R) core.Outcome {
	return r.engine.Explain(r.context(request), request)
}

// ExplainKey returns the decision that a request would have now under one rule and a key,
// and takes nothing: see [core.Limiter.ExplainKey].
func (r *ruling[R]) ExplainKey(ctx context.Context, rule, key string,
	limit limits.Limit) (limits.Decision, error) {
	return r.engine.ExplainKey(ctx, rule, key, limit)
}

// ResetKey makes the state of a key fresh under one rule: see [core.Limiter.ResetKey].
func (r *ruling[R]) ResetKey(ctx context.Context, rule, key string) error {
	return r.engine.ResetKey(ctx, rule, key)
}

// Applies reports whether a rule that is enforced applies to request: see
// [core.Limiter.Applies].
func (r *ruling[R]) Applies(request R) bool { return r.engine.Applies(request) }
