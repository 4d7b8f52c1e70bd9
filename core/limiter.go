package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unique"
)

// Config is what a [Limiter] is made of. The zero value of every field but
// Rules is a usable default.
type Config[R any] struct {
	// Rules are all decided for every request, in one atomic step. Required.
	Rules []Rule[R]

	// Backend keeps the state. nil: a new [NewMemory] with its defaults.
	Backend Backend

	// Fallback decides for rules that [FallBack] while Backend fails.
	// nil: a [NewMemory] with its defaults, made when it is first needed, which
	// takes some 3 ms. All limiters on one Backend share it, so that rules of one
	// scope count together while Backend fails too. Wrappers are one Backend with
	// what they wrap if they have a method Unwrap() Backend. A Backend that is no
	// pointer shares nothing: give its limiters one Fallback.
	Fallback Backend

	// Instances is the number of processes that share Backend. Above 1, each
	// falls back to its share of every limit, rounded up. 0: the whole limit.
	Instances int

	// Observe is called once per decided request, before Decide returns, on
	// its goroutine; it must be quick and safe for concurrent use. nil: nothing.
	Observe func(context.Context, R, Outcome)
}

// Limiter decides requests of type R against its rules. It is safe for
// concurrent use. Make one at start-up and keep it: a limiter made anew for
// every request never limits anything. In tests, make one for each test: what a
// package variable has counted in one test counts in the next.
type Limiter[R any] struct {
	rules     []compiledRule[R]
	backend   Backend
	fallback  func() Backend
	instances int
	observe   func(context.Context, R, Outcome)
	scratch   sync.Pool // of *scratch
	lone      *lone     // nil: Decide takes no fast path
}

// lone is all that the fast path of Decide needs to know of a rule.
type lone struct {
	memory *Memory
	class  *class
}

type compiledRule[R any] struct {
	ruleIdentity
	Rule[R]
	backend Backend
}

// closedRetryAfter is the wait that a rule which cannot decide asks for.
const closedRetryAfter = time.Second

// New returns a limiter, or an error that reports every mistake in config.
func New[R any](config Config[R]) (*Limiter[R], error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Limiter[R]{
		backend:   config.Backend,
		instances: config.Instances,
		observe:   config.Observe,
	}
	if l.backend == nil {
		l.backend = defaultMemory()
	}
	switch fallsBack := func(rule Rule[R]) bool { return rule.OnFailure == FallBack }; {
	case config.Fallback != nil:
		l.fallback = func() Backend { return config.Fallback }
	case config.Backend == nil:
		l.fallback = sync.OnceValue(defaultMemory)
	case slices.ContainsFunc(config.Rules, fallsBack):
		l.fallback = fallbackOf(config.Backend)
	}
	for i, rule := range config.Rules {
		scope := rule.Scope
		if scope == "" {
			scope = rule.Name
		}
		l.rules = append(l.rules, compiledRule[R]{ruleIdentity{i, rule.Name, scope, unique.Make(rule.Limit), rule.Unit}, rule, l.backend})
	}
	n := len(l.rules)
	l.lone = l.findLone()
	l.scratch.New = func() any {
		return &scratch{charges: make([]Charge, n), decisions: make([]Decision, n), charged: make([]int, n)}
	}
	return l, nil
}

// findLone returns the lone rule of a limiter, which takes the fast path of Decide; nil
// if there is none. The rule is the only one, its limit and cost are fixed, and its
// backend is a Memory without a clock of the caller's, in which nothing can panic.
func (l *Limiter[R]) findLone() *lone {
	rule := &l.rules[0]
	m, ok := l.backend.(*Memory)
	if !ok || m.clock.given != nil || len(l.rules) > 1 || rule.LimitFor != nil || rule.Cost != nil {
		return nil
	}
	k, err := m.classOf(&Charge{Scope: rule.scope, Limit: rule.Limit})
	if err != nil {
		return nil
	}
	return &lone{m, k}
}

// MustNew is [New] for package variables: it panics if config has a mistake.
func MustNew[R any](config Config[R]) *Limiter[R] {
	l, err := New(config)
	if err != nil {
		panic(err)
	}
	return l
}

func (config *Config[R]) validate() error {
	var errs []error
	if len(config.Rules) == 0 {
		errs = append(errs, errors.New("core: no rules: a limiter needs at least one"))
	}
	if config.Instances < 0 {
		errs = append(errs, fmt.Errorf("core: instances must not be negative (got %d)", config.Instances))
	}
	if config.Backend != nil && isNil(config.Backend) {
		errs = append(errs, fmt.Errorf("core: backend: is a nil %T: make one, or leave Backend nil for the memory of NewMemory", config.Backend))
	}
	if config.Fallback != nil && isNil(config.Fallback) {
		errs = append(errs, fmt.Errorf("core: fallback: is a nil %T: make one, or leave Fallback nil for the memory of NewMemory", config.Fallback))
	}
	names := make(map[string]bool)
	scopes := make(map[string]*Rule[R])
	for i := range config.Rules {
		rule := &config.Rules[i]
		if err := rule.validate(); err != nil {
			errs = append(errs, prefixEach(fmt.Sprintf("core: rule %q: ", rule.Name), err))
		}
		errs = append(errs, rule.unsupported("backend", config.Backend))
		if rule.OnFailure == FallBack {
			errs = append(errs, rule.unsupported("fallback", config.Fallback))
		}
		if names[rule.Name] {
			errs = append(errs, fmt.Errorf("core: rule %q: name: another rule has the same name", rule.Name))
		}
		names[rule.Name] = true
		scope := rule.Scope
		if scope == "" {
			scope = rule.Name
		}
		if other := scopes[scope]; other == nil {
			scopes[scope] = rule
		} else if rule.LimitFor != nil || other.LimitFor != nil || rule.Limit != other.Limit {
			errs = append(errs, fmt.Errorf("core: rule %q: scope: %q is also the scope of rule %q, whose limit may differ: rules of one scope count together and need one fixed, equal limit", rule.Name, scope, other.Name))
		}
	}
	return errors.Join(errs...)
}

// unsupported returns an error if b, which is given as role, does not decide the
// limit of rule.
func (rule *Rule[R]) unsupported(role string, b Backend) error {
	if isNil(b) || rule.LimitFor != nil || rule.Limit.Validate() != nil || Supports(b, rule.Limit) {
		return nil
	}
	return fmt.Errorf("core: rule %q: limit: the %s, a %T, does not decide %s: choose another algorithm or backend", rule.Name, role, b, rule.Limit.algorithm.one())
}

// prefixEach puts prefix before every one of the joined errors in err, so that
// each line of the whole stands for itself.
func prefixEach(prefix string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s%w", prefix, err)
	}
	var errs []error
	for _, e := range joined.Unwrap() {
		errs = append(errs, prefixEach(prefix, e))
	}
	return errors.Join(errs...)
}
