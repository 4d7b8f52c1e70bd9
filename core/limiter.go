package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/internal/ground/perbackend"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// Config is the configuration of a [Limiter]. The zero value of every field except Rules is a
// usable default.
type Config[R any] struct {
	// Rules decide every request together, in one atomic step. Required.
	Rules []Rule[R]

	// Backend keeps the state. nil: a new [memory.New] with its defaults.
	Backend backends.Backend

	// Fallback decides for rules that [FallBack] while Backend fails.
	// nil: a [memory.New] with its defaults, made at its first use, which takes about 3 ms. All
	// limiters on one Backend share it, so rules of one scope count together also while Backend
	// fails. A wrapper with a method Unwrap() Backend counts as the backend that it wraps. A
	// Backend that is no pointer shares nothing: give its limiters one Fallback.
	//
	// A Fallback that is [backends.InProcess] also counts the requests in flight under concurrency
	// limits while Backend works. Another Fallback starts from 0.
	Fallback backends.Backend

	// Instances is how many processes share Backend at least. While Backend fails, each of them
	// falls back to its share of every limit, rounded up: the limit divided by Instances, or by the
	// number that Backend counts if that is larger (see [backends.InstanceCounter]). 0: by what
	// Backend counts, and the whole limit if it does not count.
	Instances int

	// Observer is called with decisions and ends: counters of package stats, or [ObserverFuncs].
	// nil: no observer.
	Observer Observer

	// MaxWaiting is how many requests may wait for their turn at once in [Limiter.Wait], if a limit
	// is a leaky queue. Each holds a goroutine. A further request becomes [Unavailable] with the
	// error [ErrQueueFull], and its slot stays spent. 0: 10,000.
	MaxWaiting int
}

// Limiter decides requests of type R against its rules. It is safe for concurrent use. Make one at
// start-up and keep it: a new limiter for each request never limits. In tests, make one for each
// test: a package variable would carry its counts from one test to the next.
type Limiter[R any] struct {
	current atomic.Pointer[ruleSet[R]]
	backend backends.Backend
	room    waitingRoom
	prepare preparer[R] // nil: the Observer is no preparer
	observe Observer    // nil: none

	change    sync.Mutex // guards the fields below
	config    Config[R]  // with the Rules of New or the last Replace
	revision  int32      // of the latest ruleSet
	overrides map[string]*override
	ledger    *ledger // nil: no rule had an end so far
	// for Local rules; nil: no rule was Local so far, or backend is in this process
	local    *memory.Memory
	fallback func() backends.Backend // nil: no rule fell back so far
	uses     *uses                   // of all limiters on backend; nil: there is no other limiter
}

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
}

type compiledRule[R any] struct {
	ruleIdentity              // for keys for which the rule is enforced
	shadowed     ruleIdentity // for the other keys
	Rule[R]
	backend backends.Backend
	varies  bool // whether it has a LimitFor
}

// closedRetryAfter is the RetryAfter of a rule that cannot decide.
const closedRetryAfter = time.Second

// New returns a limiter, or an error that reports every mistake in config.
func New[R any](config Config[R]) (*Limiter[R], error) {
	err := config.validate()
	l := &Limiter[R]{backend: config.Backend}
	if l.backend == nil {
		l.backend = memory.MustNew(memory.Options{})
	}
	if !isnil.Of(config.Backend) {
		l.uses = usesOf.Of(l.backend)
		err = errors.Join(err, l.uses.validate(usedBy(config.Rules, l.backend)))
	}
	if err != nil {
		return nil, err
	}
	l.config = config
	l.room.capacity = int64(cmp.Or(config.MaxWaiting, defaultMaxWaiting))
	l.prepare, l.observe = prepares[R](config.Observer)
	rules, err := l.compile(config.Rules)
	if err != nil {
		return nil, err
	}
	l.config.Rules = slices.Clone(config.Rules)
	if l.uses != nil {
		if err := l.uses.add(usedBy(config.Rules, l.backend)); err != nil {
			return nil, err // another limiter was made meanwhile
		}
	}
	l.current.Store(rules)
	if config.Observer != nil {
		config.Observer.ObserveLimiter(l)
	}
	return l, nil
}

// compile returns the ruleSet of rules, which are valid and include overrides.
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
		l.ledger.local.Store(l.local) // never nil again: requests of former Local rules may be in flight
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
		set.rules = append(set.rules,
			compiledRule[R]{enforced, shadowed, rule, l.backendOf(&rule), rule.varies()})
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

// fallbackFor returns the function that returns the fallback, or nil if no rule needs one. It never
// changes once it is set.
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

// backendOf returns the backend that decides rule.
func (l *Limiter[R]) backendOf(rule *Rule[R]) backends.Backend {
	if rule.Local && l.local != nil {
		return l.local
	}
	return l.backend
}

// findFastPath returns the fast path of l, or nil. A limiter has one if its only rule has a fixed
// limit, costs 1 and has no end, and its backend is a Memory.
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

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew[R any](config Config[R]) *Limiter[R] {
	l, err := New(config)
	if err != nil {
		panic(err)
	}
	return l
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

// Wait waits for the turn of an allowed request: for [Outcome.Delay] from now. If too many requests
// wait ([ErrQueueFull]), or ctx ends, it makes o [Unavailable] and returns the error. The slot
// stays spent, since later requests have been told their turn.
func (l *Limiter[R]) Wait(ctx context.Context, o *Outcome) error {
	delay := o.Delay()
	if delay <= 0 {
		return nil
	}
	err := l.room.wait(ctx, delay)
	if err != nil {
		o.verdict, o.err = Unavailable, errors.Join(o.err, err)
	}
	return err
}

// Applies reports whether a rule that is enforced, at least for some keys, applies to r. It calls
// the Keys of rules, and asks no backend. Call it at the start of a program, to find requests that
// nothing limits.
func (l *Limiter[R]) Applies(r R) bool {
	set := l.current.Load()
	return slices.ContainsFunc(set.rules, func(rule compiledRule[R]) bool {
		if rule.Mode.Percent() == 0 {
			return false
		}
		_, err := rule.key(r)
		return !errors.Is(err, ErrDoesNotApply)
	})
}

// fallbacks has the default fallback of each backend. All limiters on the backend share it, so
// rules of one scope count together also while the backend fails.
var fallbacks = perbackend.Shared[*fallback]{New: func() *fallback { return new(fallback) }}

// fallback makes its Memory when it is first used.
type fallback struct {
	once   sync.Once
	memory *memory.Memory
}

func (f *fallback) backend() backends.Backend {
	f.once.Do(func() { f.memory = memory.MustNew(memory.Options{}) })
	return f.memory
}
