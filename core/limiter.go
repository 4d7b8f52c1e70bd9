package core

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// Config is what a [Limiter] is made of. The zero value of every field but
// Rules is a usable default.
type Config[R any] struct {
	// Rules are decided together for every request, in one atomic step. Required.
	Rules []Rule[R]

	// Backend keeps the state. nil: a new [memory.New] with its defaults.
	Backend backends.Backend

	// Fallback decides for rules that [FallBack] while Backend fails.
	// nil: a [memory.New] with its defaults, made when it is first needed, which
	// takes some 3 ms. All limiters on one Backend share it, so that rules of one
	// scope count together while Backend fails too. Wrappers are one Backend with
	// what they wrap if they have a method Unwrap() Backend. A Backend that is no
	// pointer shares nothing: give its limiters one Fallback.
	//
	// A Fallback that is [backends.InProcess] counts what runs under concurrency limits
	// while Backend works; another one starts from nothing.
	Fallback backends.Backend

	// Instances is the number of processes that share Backend. Above 1, each
	// falls back to its share of every limit, rounded up. 0: the whole limit.
	Instances int

	// Observer is told of decisions, ends and changes, such as counters of package stats or
	// [ObserverFuncs]. nil: nothing is told.
	Observer Observer

	// MaxWaiting is how many requests may wait for their turn at once in [Limiter.Wait], if a
	// limit is a leaky queue. Each one holds a goroutine. A further request is [Unavailable]
	// with the error [ErrQueueFull], and its slot stays spent. 0: 10,000.
	MaxWaiting int
}

// Limiter decides requests of type R against its rules. It is safe for
// concurrent use. Make one at start-up and keep it: a limiter made anew for
// every request never limits anything. In tests, make one for each test: what a
// package variable has counted in one test counts in the next.
type Limiter[R any] struct {
	current atomic.Pointer[ruleSet[R]]
	backend backends.Backend
	room    waitingRoom
	prepare preparer[R] // nil: nothing has to be prepared
	observe Observer    // nil: nothing is told

	change    sync.Mutex // guards what follows
	config    Config[R]  // its Rules are those of New or the last Replace
	revision  int32      // of the rules that were compiled last
	overrides map[string]*override
	ledger    *ledger                 // nil: no rule ever had an end
	local     *memory.Memory          // of the rules that are Local; nil: none ever was, or backend is in this process
	fallback  func() backends.Backend // nil: no rule ever needed one
}

// ruleSet is what decides requests until rules change. It does not change itself: a
// request is decided by one ruleSet from start to end.
type ruleSet[R any] struct {
	rules     []compiledRule[R] // those that are disabled left out
	backend   backends.Backend
	fallback  func() backends.Backend
	instances int
	revision  int32
	observe   Observer
	scratch   sync.Pool      // of *scratch
	fast      *memory.Bound  // decides the only rule directly; nil: Decide takes no fast path
	ledger    *ledger        // nil: no rule has an end
	endings   *ledger        // of these rules or of earlier ones; nil: none had an end
	local     *memory.Memory // nil: no rule is Local, or backend is in this process
}

type compiledRule[R any] struct {
	ruleIdentity              // of the rule where it is enforced
	shadowed     ruleIdentity // and where it is a shadow
	Rule[R]
	backend backends.Backend
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
		l.backend = memory.MustNew(memory.Options{})
	}
	l.config = config
	l.room.capacity = int64(cmp.Or(config.MaxWaiting, defaultMaxWaiting))
	l.prepare, l.observe = prepares[R](config.Observer)
	rules, err := l.compile(config.Rules)
	if err != nil {
		return nil, err
	}
	l.config.Rules = slices.Clone(config.Rules)
	l.current.Store(rules)
	if config.Observer != nil {
		config.Observer.ObserveLimiter(l)
	}
	return l, nil
}

// compile returns what decides by rules, which are valid, overrides included.
func (l *Limiter[R]) compile(rules []Rule[R]) (*ruleSet[R], error) {
	has := func(f func(rule Rule[R]) bool) bool { return slices.ContainsFunc(rules, f) }
	set := &ruleSet[R]{
		backend:   l.backend,
		fallback:  l.fallbackFor(has(func(rule Rule[R]) bool { return rule.OnFailure == FallBack })),
		instances: l.config.Instances,
		observe:   l.observe,
	}
	if !backends.IsInProcess(l.backend) && has(func(rule Rule[R]) bool { return rule.Local }) {
		if l.local == nil {
			l.local = memory.MustNew(memory.Options{})
		}
		set.local = l.local
	}
	if has(func(rule Rule[R]) bool { return rule.hasEnd() }) {
		if l.ledger == nil {
			l.ledger = newLedger(l.backend, l.fallbackFor(true), l.observe)
		}
		l.ledger.local.Store(l.local) // also after the last Local rule is gone: requests are under way
		set.ledger = l.ledger
	}
	set.endings = l.ledger
	l.revision++
	set.revision = l.revision
	if l.prepare != nil {
		if err := l.prepare.Prepare(set.revision, rules); err != nil {
			return nil, err
		}
	}
	for i, rule := range rules {
		if rule.Mode == Disabled {
			continue
		}
		enforced := rule.identity(i)
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
func (l *Limiter[R]) fallbackFor(needed bool) func() backends.Backend {
	if !needed || l.fallback != nil {
		return l.fallback
	}
	if fallback := l.config.Fallback; fallback != nil {
		l.fallback = func() backends.Backend { return fallback }
	} else {
		l.fallback = fallbacks.Of(l.backend).backend
	}
	return l.fallback
}

// identity returns what outcomes know of rule, which is the i-th.
func (rule *Rule[R]) identity(i int) ruleIdentity {
	return ruleIdentity{
		index: i, name: rule.Name, scope: rule.scopeOrName(), limit: new(rule.Limit), unit: rule.unitOf(),
		capacity: rule.DenyAs503, onFailure: rule.OnFailure,
		hasEnd: rule.hasEnd(), held: rule.holds(), finalCost: rule.FinalCost, lasts: rule.lastsOf(),
		undelayed: rule.undelayed(),
	}
}

// backendOf returns the backend that decides rule.
func (l *Limiter[R]) backendOf(rule *Rule[R]) backends.Backend {
	if rule.Local && l.local != nil {
		return l.local
	}
	return l.backend
}

// findFastPath returns the fast path of l, nil if l needs the general one. A limiter
// has it if it has one rule, with a fixed limit and cost, on a Memory, and what it charges
// has no end.
func (l *ruleSet[R]) findFastPath() *memory.Bound {
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
