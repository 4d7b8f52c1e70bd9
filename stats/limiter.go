package stats

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Counters are the counters of a limiter, and the [core.Observer] that counts into them.
// [Stats.Limiter] makes them. They are safe for concurrent use.
type Counters struct {
	byIndex  [maxIndex]atomic.Pointer[rule]   // guesses: where rules were when they were last seen
	byName   atomic.Pointer[map[string]*rule] // the map is never written
	verdicts [stripes]verdicts

	name     string
	denials  denials
	watching atomic.Pointer[watching]

	mu    sync.Mutex // of whoever adds rules
	rules []*rule    // in the order in which they were first seen
}

// stateful is what a limiter tells about itself.
type stateful interface{ State() core.State }

// watching is a limiter that is limiterState, and the counters of those before it.
type watching struct {
	limiter stateful
	before  core.State
}

// state returns the state of the limiter, with the counters of all limiters that were limiterState.
func (w *watching) state() core.State {
	s := w.limiter.State()
	s.Preflights += w.before.Preflights
	s.QueueFull += w.before.QueueFull
	s.QueueLeft += w.before.QueueLeft
	return s
}

func newLimiter(name string, lines *lines) *Counters {
	l := &Counters{name: name}
	l.byName.Store(&map[string]*rule{})
	l.denials.of, l.denials.lines = l, lines
	return l
}

// ObserveDecision implements [core.Observer]: it counts every request once, also those whose context
// ended ([core.Abandoned]).
func (l *Counters) ObserveDecision(_ context.Context, _ any, o core.Outcome) { l.count(&o) }

// ObserveEnd implements [core.Observer]: it counts what became of the end of a request under one rule.
func (l *Counters) ObserveEnd(s limits.Settlement) {
	ends := &l.ruleOf(s.Rule).ends
	switch {
	case errors.Is(s.Err, backends.ErrEndingDropped):
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

// ObserveLimiter implements [core.Observer]. Snapshots show the rules of limiter as they are then:
// limits, modes, overrides, what is held, what waits. Rules are counted from zero as soon as
// ObserveLimiter or a snapshot has seen them. l keeps limiter alive. A later limiter takes its place
// in snapshots, and the counters stay.
func (l *Counters) ObserveLimiter(limiter interface{ State() core.State }) {
	if isnil.Of(limiter) {
		return
	}
	l.see(limiter.State().Rules)
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &watching{limiter: limiter}
	if before := l.watching.Load(); before != nil {
		if reflect.ValueOf(limiter).Comparable() && before.limiter == limiter {
			return
		}
		next.before = before.state()
	}
	l.watching.Store(next)
}

func (l *Counters) snapshot(now time.Time) LimiterSnapshot {
	shot := LimiterSnapshot{Name: l.name}
	inForce := make(map[string]core.RuleState)
	if watching := l.watching.Load(); watching != nil {
		state := watching.state()
		l.see(state.Rules)
		for _, rule := range state.Rules {
			inForce[rule.Name] = rule
		}
		shot.Held, shot.HeldSince, shot.Waiting = state.Held, state.HeldSince, state.Waiting
		shot.Preflights, shot.QueueFull, shot.QueueLeft = state.Preflights, state.QueueFull, state.QueueLeft
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
