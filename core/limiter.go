package core

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// Config is what a [Limiter] is made of. The zero value of every field but
// Rules is a usable default.
type Config[R any] struct {
	// Rules are decided together for every request, in one atomic step. Required.
	Rules []Rule[R]

	// Backend keeps the state. nil: a new [memory.New] with its defaults.
	Backend limits.Backend

	// Fallback decides for rules that [FallBack] while Backend fails.
	// nil: a [memory.New] with its defaults, made when it is first needed, which
	// takes some 3 ms. All limiters on one Backend share it, so that rules of one
	// scope count together while Backend fails too. Wrappers are one Backend with
	// what they wrap if they have a method Unwrap() Backend. A Backend that is no
	// pointer shares nothing: give its limiters one Fallback.
	//
	// A Fallback that is [limits.InProcess] counts what runs under concurrency limits
	// while Backend works; another one starts from nothing.
	Fallback limits.Backend

	// Instances is the number of processes that share Backend. Above 1, each
	// falls back to its share of every limit, rounded up. 0: the whole limit.
	Instances int

	// Observe is called once for every call of Decide, before it returns, on its
	// goroutine, also if the outcome is [Abandoned]; it must be quick and safe for
	// concurrent use. nil: nothing.
	Observe func(context.Context, R, Outcome)

	// Companion is called with all rules whenever they come into force: by [New],
	// [Limiter.Replace], [Limiter.Override] and when an override ends. [Outcome.Companion]
	// returns what it returned to whoever decided by these rules. It is for adapters, such
	// as for what writes header fields. An error is one of New or of the change. nil:
	// nothing.
	Companion func([]Rule[R]) (any, error)

	// ObserveEnd is called once for every rule with an end, after the end of a request
	// that the rule allowed. It is called on the goroutine that calls [Outcome.End], or
	// on one of its own if the backend is outside this process; it must be quick and safe
	// for concurrent use. A panic in it is dropped. nil: nothing.
	ObserveEnd func(limits.Settlement)
}

// Limiter decides requests of type R against its rules. It is safe for
// concurrent use. Make one at start-up and keep it: a limiter made anew for
// every request never limits anything. In tests, make one for each test: what a
// package variable has counted in one test counts in the next.
type Limiter[R any] struct {
	current atomic.Pointer[ruleSet[R]]
	backend limits.Backend

	change    sync.Mutex // guards what follows
	config    Config[R]  // its Rules are those of New or the last Replace
	overrides map[string]*override
	ledger    *ledger               // nil: no rule ever had an end
	local     *memory.Memory        // of the rules that are Local; nil: none ever was, or backend is in this process
	fallback  func() limits.Backend // nil: no rule ever needed one
}

// ruleSet is what decides requests until rules change. It does not change itself: a
// request is decided by one ruleSet from start to end.
type ruleSet[R any] struct {
	rules     []compiledRule[R] // those that are disabled left out
	backend   limits.Backend
	fallback  func() limits.Backend
	instances int
	observe   func(context.Context, R, Outcome)
	scratch   sync.Pool       // of *scratch
	fast      *memory.Limiter // decides the only rule directly; nil: Decide takes no fast path
	ledger    *ledger         // nil: no rule has an end
	endings   *ledger         // of these rules or of earlier ones; nil: none had an end
	local     *memory.Memory  // nil: no rule is Local, or backend is in this process
}

type compiledRule[R any] struct {
	ruleIdentity              // of the rule where it is enforced
	shadowed     ruleIdentity // and where it is a shadow
	Rule[R]
	backend limits.Backend
	varies  bool // Rule.varies
}

// closedRetryAfter is the wait that a rule which cannot decide asks for.
const closedRetryAfter = time.Second

// New returns a limiter, or an error that reports every mistake in config.
func New[R any](config Config[R]) (*Limiter[R], error) {
	if err := config.validate(); err != nil {
		return nil, err
	}
	l := &Limiter[R]{backend: config.Backend}
	if l.backend == nil {
		l.backend = memory.New(memory.Options{})
	}
	l.config = config
	rules, err := l.compile(config.Rules)
	if err != nil {
		return nil, err
	}
	l.config.Rules = slices.Clone(config.Rules)
	l.current.Store(rules)
	return l, nil
}

// compile returns what decides by rules, which are valid, overrides included.
func (l *Limiter[R]) compile(rules []Rule[R]) (*ruleSet[R], error) {
	has := func(f func(rule Rule[R]) bool) bool { return slices.ContainsFunc(rules, f) }
	set := &ruleSet[R]{
		backend:   l.backend,
		fallback:  l.fallbackFor(has(func(rule Rule[R]) bool { return rule.OnFailure == FallBack })),
		instances: l.config.Instances,
		observe:   l.config.Observe,
	}
	if !limits.IsInProcess(l.backend) && has(func(rule Rule[R]) bool { return rule.Local }) {
		if l.local == nil {
			l.local = memory.New(memory.Options{})
		}
		set.local = l.local
	}
	if has(func(rule Rule[R]) bool { return rule.hasEnd() }) {
		if l.ledger == nil {
			l.ledger = newLedger(l.backend, l.fallbackFor(true), l.config.ObserveEnd)
		}
		l.ledger.local.Store(l.local) // also after the last Local rule is gone: requests are under way
		set.ledger = l.ledger
	}
	set.endings = l.ledger
	var companion any
	if l.config.Companion != nil {
		var err error
		if companion, err = l.config.Companion(rules); err != nil {
			return nil, err
		}
	}
	for i, rule := range rules {
		if rule.Mode == Disabled {
			continue
		}
		enforced := rule.identity(i, companion)
		shadowed := enforced
		shadowed.mode = Shadow
		set.rules = append(set.rules, compiledRule[R]{enforced, shadowed, rule, l.backendOf(&rule), rule.varies()})
	}
	n := len(set.rules)
	set.fast = set.findFastPath()
	set.scratch.New = func() any {
		s := newScratch(n)
		if set.local != nil {
			s.local = newScratch(n)
		}
		return s
	}
	return set, nil
}

// fallbackFor returns what makes the fallback, nil if no rule needs one. It is the same
// for all rules that ever are in force.
func (l *Limiter[R]) fallbackFor(needed bool) func() limits.Backend {
	if !needed || l.fallback != nil {
		return l.fallback
	}
	if fallback := l.config.Fallback; fallback != nil {
		l.fallback = func() limits.Backend { return fallback }
	} else {
		l.fallback = fallbacks.Of(l.backend).backend
	}
	return l.fallback
}

// identity returns what outcomes know of rule, which is the i-th.
func (rule *Rule[R]) identity(i int, companion any) ruleIdentity {
	return ruleIdentity{
		index: i, name: rule.Name, scope: rule.scopeOrName(), companion: companion, limit: new(rule.Limit), unit: rule.unitOf(),
		capacity: rule.DenyAs503, onFailure: rule.OnFailure,
		hasEnd: rule.hasEnd(), held: rule.holds(), finalCost: rule.FinalCost, lasts: rule.lastsOf(),
		undelayed: rule.undelayed(),
	}
}

// backendOf returns the backend that decides rule.
func (l *Limiter[R]) backendOf(rule *Rule[R]) limits.Backend {
	if rule.Local && l.local != nil {
		return l.local
	}
	return l.backend
}

// Held returns how many units of concurrency limits the requests hold that have not
// ended, and the instant of the decision on the oldest request that has something to end,
// by the clock of its backend; the zero Time if there is none. A number that only rises,
// or an instant of long ago, shows that somebody calls Decide and not [Outcome.End].
func (l *Limiter[R]) Held() (units int, oldest time.Time) {
	l.change.Lock()
	ledger := l.ledger
	l.change.Unlock()
	if ledger == nil {
		return 0, time.Time{}
	}
	return ledger.held()
}

// findFastPath returns the fast path of l, nil if l needs the general one. A limiter
// has it if it has one rule, with a fixed limit and cost, on a Memory, and what it charges
// has no end.
func (l *ruleSet[R]) findFastPath() *memory.Limiter {
	if len(l.rules) != 1 || l.rules[0].Mode != Enforce {
		return nil
	}
	rule := &l.rules[0]
	m, ok := l.backend.(*memory.Memory)
	if !ok || rule.varies || rule.Cost != nil || rule.NoDelay != 0 || l.ledger != nil {
		return nil
	}
	keys, err := m.Bind(rule.scope, rule.Limit)
	if err != nil {
		return nil
	}
	return keys
}

// MustNew is [New] for package variables: it panics if config has a mistake.
func MustNew[R any](config Config[R]) *Limiter[R] {
	l, err := New(config)
	if err != nil {
		panic(err)
	}
	return l
}
