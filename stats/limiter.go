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

// Counters are the counters of one limiter. They implement [core.Observer]. [Stats.Limiter] returns
// them. They are safe for concurrent use.
type Counters struct {
	// the rule last seen at each index; may be out of date
	byIndex  [maxIndex]atomic.Pointer[rule]
	byName   atomic.Pointer[map[string]*rule] // maps are replaced, never written
	verdicts [stripes]verdicts

	name    string
	denials denials
	watched atomic.Pointer[watchedLimiter]

	mu    sync.Mutex // guards rules and replacing byName
	rules []*rule    // in the order in which they were first seen
}

// stateful is a limiter that reports its state.
type stateful interface{ State() core.State }

// watchedLimiter is the limiter that is watched now, with the counters of the limiters before it.
type watchedLimiter struct {
	limiter stateful
	before  core.State
}

// state returns the state of the limiter, with the counters of earlier limiters added.
func (w *watchedLimiter) state() core.State {
	s := w.limiter.State()
	s.Preflights += w.before.Preflights
	s.QueueFull += w.before.QueueFull
	s.QueueLeft += w.before.QueueLeft
	return s
}

func newLimiter(name string, lines *lines) *Counters {
	c := &Counters{name: name}
	c.byName.Store(&map[string]*rule{})
	c.denials.counters, c.denials.lines = c, lines
	return c
}

// ObserveDecision implements [core.Observer]. It counts every request once, including requests
// whose context ended ([core.Abandoned]).
func (c *Counters) ObserveDecision(_ context.Context, _ any, o core.Outcome) { c.count(&o) }

// ObserveEnd implements [core.Observer]. It counts how the end of a request was settled for one
// rule.
func (c *Counters) ObserveEnd(s limits.Settlement) {
	ends := &c.ruleOf(s.Rule).ends
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

// ObserveLimiter implements [core.Observer]. From now on, snapshots show the current state of
// limiter: its rules with limits, modes and overrides, the units held, the requests waiting. The
// counters of a rule exist as soon as ObserveLimiter or a snapshot has seen the rule. c keeps a
// reference to limiter. A later limiter replaces it in snapshots; the counters stay.
func (c *Counters) ObserveLimiter(limiter interface{ State() core.State }) {
	if isnil.Of(limiter) {
		return
	}
	c.see(limiter.State().Rules)
	c.mu.Lock()
	defer c.mu.Unlock()
	next := &watchedLimiter{limiter: limiter}
	if before := c.watched.Load(); before != nil {
		if reflect.ValueOf(limiter).Comparable() && before.limiter == limiter {
			return
		}
		next.before = before.state()
	}
	c.watched.Store(next)
}

func (c *Counters) snapshot(now time.Time) LimiterSnapshot {
	shot := LimiterSnapshot{Name: c.name}
	inForce := make(map[string]core.RuleState)
	if w := c.watched.Load(); w != nil {
		state := w.state()
		c.see(state.Rules)
		for _, rule := range state.Rules {
			inForce[rule.Name] = rule
		}
		shot.Held, shot.HeldSince, shot.Waiting = state.Held, state.HeldSince, state.Waiting
		shot.Instances, shot.Preflights = state.Instances, state.Preflights
		shot.QueueFull, shot.QueueLeft = state.QueueFull, state.QueueLeft
	}
	for i := range c.verdicts {
		counts := &c.verdicts[i].counts
		shot.Requests.Allowed += counts[core.Allowed].Load()
		shot.Requests.Denied += counts[core.Denied].Load()
		shot.Requests.Unavailable += counts[core.Unavailable].Load()
		shot.Requests.Abandoned += counts[core.Abandoned].Load()
	}
	for _, r := range c.allRules() {
		state, ok := inForce[r.name]
		shot.Rules = append(shot.Rules, r.snapshot(state, ok, &shot.Requests))
	}
	c.denials.snapshot(&shot, now)
	return shot
}
