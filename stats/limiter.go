package stats

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Limiter has the counters of a limiter. [Stats.Limiter] makes it. It is safe for
// concurrent use.
type Limiter struct {
	byIndex  [maxIndex]atomic.Pointer[rule]   // guesses: where rules were when they were last seen
	byName   atomic.Pointer[map[string]*rule] // the map is never written
	verdicts [stripes]verdicts

	name     string
	denials  denials
	watching atomic.Pointer[watching]

	mu    sync.Mutex // of whoever adds rules
	rules []*rule    // in the order in which they were first seen
}

// Watched is what a limiter tells about itself: a [core.Limiter], a gate, and the limiters
// of all frameworks. A limiter that has the methods Preflights and Queue of a gate too is
// asked for those.
type Watched interface {
	Rules() []core.RuleState
	Held() (units int, oldest time.Time)
}

// watching is a limiter that is watched, and the counters of those before it.
type watching struct {
	limiter                     Watched
	preflights, queueFull, left int64
}

// gate is the part of a Watched that HTTP limiters have.
type gate interface {
	Preflights() int64
	Queue() (waiting int, full, left int64)
}

// counters returns the counters of all limiters that were watched, and how many requests
// wait at this one.
func (w *watching) counters() (preflights, queueFull, left int64, waiting int) {
	if g, ok := w.limiter.(gate); ok {
		preflights = g.Preflights()
		waiting, queueFull, left = g.Queue()
	}
	return w.preflights + preflights, w.queueFull + queueFull, w.left + left, waiting
}

func newLimiter(name string, lines *lines) *Limiter {
	l := &Limiter{name: name}
	l.byName.Store(&map[string]*rule{})
	l.denials.of, l.denials.lines = l, lines
	return l
}

// Observe returns a function to be the Observe of a limiter's Config: it counts into l,
// and then calls also, one after the other. R is the framework's request, such as
// *http.Request; where also is given the compiler knows R. It counts every request once,
// also those whose context ended ([core.Abandoned]).
func Observe[R any](l *Limiter, also ...func(context.Context, R, core.Outcome)) func(context.Context, R, core.Outcome) {
	if len(also) == 0 {
		return func(_ context.Context, _ R, o core.Outcome) { l.count(&o) }
	}
	also = slices.Clone(also)
	return func(ctx context.Context, r R, o core.Outcome) {
		l.count(&o)
		for _, observe := range also {
			observe(ctx, r, o)
		}
	}
}

// ObserveEnd is to be the ObserveEnd of a limiter's Config: it counts what became of the
// end of a request under one rule.
func (l *Limiter) ObserveEnd(s limits.Settlement) {
	ends := &l.ruleOf(s.Rule).ends
	switch {
	case errors.Is(s.Err, limits.ErrEndingDropped):
		ends.dropped.Add(1)
	case s.Err != nil:
		ends.lost.Add(1)
	default:
		ends.done.Add(1)
		addUnits(&ends.returned, s.Returned)
		addUnits(&ends.charged, s.Charged)
		addUnits(&ends.forgiven, s.Forgiven)
	}
}

func addUnits(to *atomic.Int64, n int64) {
	if n != 0 {
		to.Add(n)
	}
}

// Watch has snapshots show the rules of limiter as they are then: limits, modes, overrides,
// what is held, what waits. Rules are counted from zero as soon as Watch or a snapshot has
// seen them. l keeps limiter alive. A later call watches another limiter instead, of the
// same name, and keeps the counters. It panics if limiter is nil.
func (l *Limiter) Watch(limiter Watched) {
	if limiter == nil {
		panic("stats: Watch: the limiter is nil")
	}
	l.see(limiter.Rules())
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &watching{limiter: limiter}
	if before := l.watching.Load(); before != nil {
		if reflect.ValueOf(limiter).Comparable() && before.limiter == limiter {
			return
		}
		next.preflights, next.queueFull, next.left, _ = before.counters()
	}
	l.watching.Store(next)
}

func (l *Limiter) snapshot(now time.Time) LimiterSnapshot {
	shot := LimiterSnapshot{Name: l.name}
	inForce := make(map[string]core.RuleState)
	if watching := l.watching.Load(); watching != nil {
		states := watching.limiter.Rules()
		l.see(states)
		for _, state := range states {
			inForce[state.Name] = state
		}
		shot.Held, shot.HeldSince = watching.limiter.Held()
		shot.Preflights, shot.QueueFull, shot.QueueLeft, shot.Waiting = watching.counters()
	}
	for i := range l.verdicts {
		of := &l.verdicts[i].of
		shot.Requests.Allowed += of[core.Allowed].Load()
		shot.Requests.Denied += of[core.Denied].Load()
		shot.Requests.Unavailable += of[core.Unavailable].Load()
		shot.Requests.Abandoned += of[core.Abandoned].Load()
	}
	for _, r := range l.allRules() {
		state, ok := inForce[r.name]
		shot.Rules = append(shot.Rules, r.snapshot(state, ok, &shot.Requests))
	}
	l.denials.snapshot(&shot, now)
	return shot
}
