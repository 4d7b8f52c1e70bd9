package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
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

	// MaxPromise is how far ahead a denied request may be promised a turn: 2s to 24h. [Outcome.Turn]
	// then is the shortest wait for a client that is alone, and a turn of its own for each of those
	// who wait together: as many are told to come back in each second as the limit then admits.
	// RetryAfter of a [limits.Decision] stays the least wait, and admission stays first come, first
	// served: a promise takes nothing, and is forgotten when it is past. A request that finds no
	// turn within MaxPromise is told MaxPromise, or its least wait if that is longer.
	//
	// This process remembers the last turn of each key that was denied, for about 16,000 keys.
	// Processes that share Backend each promise their part of the turns, by Instances or by what
	// Backend counts. A client that goes on asking makes the line of its own key longer, up to
	// MaxPromise, and no other. Concurrency limits and bans promise nothing. [Limiter.Explain] and
	// Peek do not say what was promised. 0: no promises.
	MaxPromise time.Duration
}

// Limiter decides requests of type R against its rules. It is safe for concurrent use. Make one at
// start-up and keep it: a new limiter for each request never limits. In tests, make one for each
// test: a package variable would carry its counts from one test to the next.
type Limiter[R any] struct {
	book rulebook[R]
	room waitingRoom
}

// New returns a limiter, or an error that reports every mistake in config.
func New[R any](config Config[R]) (*Limiter[R], error) {
	l := new(Limiter[R])
	if err := l.book.open(config); err != nil {
		return nil, err
	}
	l.room.capacity = int64(cmp.Or(config.MaxWaiting, defaultMaxWaiting))
	if config.Observer != nil {
		config.Observer.ObserveLimiter(l)
	}
	return l, nil
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
	set := l.book.current.Load()
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
	if set.turns != nil && o.verdict == Denied {
		set.promise(o)
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
	set := l.book.current.Load()
	return slices.ContainsFunc(set.rules, func(rule compiledRule[R]) bool {
		if rule.Mode.Percent() == 0 {
			return false
		}
		_, err := rule.key(r)
		return !errors.Is(err, ErrDoesNotApply)
	})
}

// Explain returns the outcome that r would have now, and takes nothing. As with [backends.Peeker],
// Remaining is what is left without the request. Explain asks neither a denial cache nor the
// fallback: if the backend fails, or is no Peeker, the outcome is Unavailable and its Err says why.
// Explain does not call the Observer.
func (l *Limiter[R]) Explain(ctx context.Context, r R) Outcome {
	return l.book.current.Load().explain(ctx, r, false)
}

// Peek is Explain that asks for every rule. If a Local rule denies r, Explain asks for no rule of
// the backend, as Decide does, and says nothing about these.
func (l *Limiter[R]) Peek(ctx context.Context, r R) Outcome {
	return l.book.current.Load().explain(ctx, r, true)
}

// PeekEach is Peek for each of requests, by the rules that are in force when the first is asked
// for. A Replace meanwhile changes no later outcome, so all are about one list of rules. A request
// may be used again for the next.
func (l *Limiter[R]) PeekEach(ctx context.Context, requests iter.Seq[R]) iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		set := l.book.current.Load()
		for r := range requests {
			if !yield(set.explain(ctx, r, true)) {
				return
			}
		}
	}
}

// ExplainKey returns the decision that a request of one unit would have now under a rule and a key,
// and takes nothing. Under a limit that counts values, the request has a new value. The key is a
// result of the rule's Key. limit is the limit of the key if the rule has a LimitFor; otherwise
// pass the zero Limit, which is that of an [Limiter.OverrideKey] if there is one. It returns an error
// if there is no such rule, it has no limit, or the backend fails.
func (l *Limiter[R]) ExplainKey(ctx context.Context, rule, key string,
	limit limits.Limit) (limits.Decision, error) {
	return l.book.current.Load().explainKey(ctx, rule, key, limit)
}

// State returns a snapshot of the limiter and its counters.
func (l *Limiter[R]) State() State {
	s := l.book.state()
	s.Waiting = int(l.room.waiting.Load())
	s.QueueFull, s.QueueLeft = l.room.full.Load(), l.room.left.Load()
	return s
}

// Replace puts other rules into force from the next request on. The rest of the configuration
// stays. Requests in flight, and those that wait in a queue, keep their rules until they end. What
// keys have used stays used, since state belongs to scope and key. But a rule whose [Rule].Local
// changes counts in another place from then on. If a rule has a mistake, Replace changes nothing
// and reports every mistake. It is safe for concurrent use.
func (l *Limiter[R]) Replace(rules []Rule[R]) error {
	return l.book.replace(rules)
}

// Override changes the rule of that name in this process until an instant. It outranks [New] and
// [Limiter.Replace], and replaces an earlier Override of the rule. It ends by itself at that
// instant, or when Replace removes the rule. It returns an error, and changes nothing, if there is
// no such rule, Until is not in the future, the limit is not legal, the rule has a LimitFor, or
// another rule of its scope is overridden with another limit. To change a rule for good and on all
// instances, change the rules. It is safe for concurrent use.
func (l *Limiter[R]) Override(rule string, o Override) error {
	return l.book.override(rule, o)
}

// OverrideKey changes the limit of one key under the rule of that name in this process until an
// instant. key is a result of the rule's Key. o has Limit and Until, and no Mode. It holds for all
// rules of the scope, outranks LimitFor and [Limiter.Override], and replaces an earlier override of
// the key. What the key has used stays used. It ends by itself at that instant, or when Replace
// removes the rule; the zero Override ends it at once. It returns an error, and changes nothing, if
// there is no such rule, Until is not in the future, the rule cannot have such a limit, as a
// concurrency limit, another rule of its scope overrides the key with another limit, or 1,000 other
// keys have overrides. Meanwhile requests of the rule take as long as with a LimitFor. It is safe for
// concurrent use.
func (l *Limiter[R]) OverrideKey(rule, key string, o Override) error {
	return l.book.overrideKey(rule, key, o)
}

// KeyOverrides returns the overrides of keys under the rule of that name, by key. Keys may identify
// people: do not log them. The caller owns the map.
func (l *Limiter[R]) KeyOverrides(rule string) map[string]Override {
	return l.book.keyOverrides(rule)
}

// ResetKey makes the state of a key under a rule fresh, as if it had never been charged, in the
// backend that decides the rule. The key is a result of the rule's Key. Rules of equal scope share
// the state. A fallback keeps its own, and other processes the turns that they have promised. It
// returns an error if there is no such rule, if the backend fails or cannot reset, or if the rule has
// a [limits.Concurrent] limit, whose units are released when requests end.
func (l *Limiter[R]) ResetKey(ctx context.Context, rule, key string) error {
	b, scope, err := l.book.stateOf(rule)
	if err != nil {
		return fmt.Errorf("core: reset: rule %q: %w", rule, err)
	}
	if err := call.Reset(ctx, b, scope, key); err != nil {
		return err
	}
	l.book.turns.Forget(scope, key)
	return nil
}
