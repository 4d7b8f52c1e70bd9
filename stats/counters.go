package stats

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
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

// verdicts counts requests by verdict, except requests that a counter of a rule includes (see
// kind). Each element of an array of verdicts has cache lines of its own.
type verdicts struct {
	counts [4]atomic.Int64
	_      [96]byte
}

// maxRules is the number of rule names with counters of their own.
const maxRules = 1000

// Other is the name that all further rules share once a limiter has 1,000 names of rules.
const Other = "(other)"

// maxIndex is the number of rules of a limiter that are found by index. Later rules are found by
// name, which takes about 10 ns more.
const maxIndex = 64

// stripes is the number of copies of each counter. Several copies keep processors from waiting for
// each other.
const stripes = 8

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
		for verdict := range counts {
			shot.Requests.add(core.Verdict(verdict), counts[verdict].Load())
		}
	}
	for _, r := range c.allRules() {
		state, ok := inForce[r.name]
		shot.Rules = append(shot.Rules, r.snapshot(state, ok, &shot.Requests))
	}
	c.denials.snapshot(&shot, now)
	return shot
}

// stripeOf returns the copy of the counters to use for o, which is on the stack of the calling
// goroutine. Goroutines do not share a stack, so the address spreads them over the copies. A random
// number would spread them more evenly, and takes 4 ns.
func stripeOf(o *core.Outcome) uint {
	// Knuth, The Art of Computer Programming, volume 3, section 6.4
	const goldenRatio = 0x9e3779b97f4a7c15
	return uint(uint64(uintptr(unsafe.Pointer(o))>>11)*goldenRatio>>61) % stripes
}

// see creates counters for the rules in force, and records their indexes.
func (c *Counters) see(states []core.RuleState) {
	for i := range states {
		if r := c.ruleOf(states[i].Name); i < maxIndex && c.byIndex[i].Load() != r {
			c.byIndex[i].Store(r)
		}
	}
}

// count counts one request. The most common kind has a fast path: a single rule that allowed it.
func (c *Counters) count(o *core.Outcome) {
	if o.Len() == 1 && o.Allowed() {
		if d := o.At(0); d.Allowed && d.Source.Counted() && d.Cost == 1 && d.Delay == 0 {
			k := aloneTaken
			if isNear(d) {
				k = aloneNear
			}
			c.rule(d).stripes[stripeOf(o)].cells[cell(d.Source, d.Mode() == core.Shadow, k)].Add(1)
			return
		}
	}
	c.countAny(o)
}

// countAny counts any request.
func (c *Counters) countAny(o *core.Outcome) {
	stripe, verdict := stripeOf(o), o.Verdict()
	// whether a rule denies, and whether its counter includes the request
	denies, counted := false, false
	binding := -1
	if verdict == core.Denied {
		binding = o.BindingRule()
	}
	n := o.Len()
	for i := range n {
		d := o.At(i)
		if d.Source >= limits.SourceNotAsked {
			continue
		}
		k := kindOf(d, verdict, n == 1, i == binding)
		counted = k >= aloneTaken
		denies = denies || !d.Allowed
		r := c.rule(d)
		r.count(stripe, k, d)
		if !d.Source.Counted() {
			r.failed[failure.Of(o.Err(), d.Rule(), d.Source)].Add(1)
		}
	}
	if counts := &c.verdicts[stripe].counts; !counted && int(verdict) < len(counts) {
		counts[verdict].Add(1)
	}
	if denies {
		c.denials.note(o, binding)
	}
}

// rule returns the counters of the rule that made d.
func (c *Counters) rule(d *core.RuleDecision) *rule {
	i := d.Index()
	if uint(i) >= maxIndex {
		return c.ruleOf(d.Rule())
	}
	r := c.byIndex[i].Load()
	switch {
	case r == nil:
		r = c.ruleOf(d.Rule())
		c.byIndex[i].Store(r)
	case r.name != d.Rule(): // until the next call of see, or because two limiters use c
		r = c.ruleOf(d.Rule())
	}
	return r
}

// ruleOf returns the counters of the named rule, and creates them if needed.
func (c *Counters) ruleOf(name string) *rule {
	rules := *c.byName.Load()
	if r := rules[name]; r != nil {
		return r
	}
	if len(rules) > maxRules {
		return rules[Other]
	}
	return c.addRule(name)
}

func (c *Counters) addRule(name string) *rule {
	name = label(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	rules := make(map[string]*rule)
	for known, r := range *c.byName.Load() {
		rules[known] = r
	}
	if len(rules) >= maxRules {
		name = Other
	}
	if r := rules[name]; r != nil {
		return r
	}
	r := newRule(name, len(c.rules))
	rules[name] = r
	c.rules = append(c.rules, r)
	c.byName.Store(&rules)
	return r
}

func (c *Counters) allRules() []*rule {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.rules)
}
