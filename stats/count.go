package stats

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/failure"
	"github.com/weir-go/weir/limits"
)

// verdicts counts requests by verdict, except those that a rule counts. Each is on
// cache lines of its own.
type verdicts struct {
	of [4]atomic.Int64
	_  [96]byte
}

// maxRules is how many names of rules have counters of their own.
const maxRules = 1000

// Other is the name under which the rules beyond 1,000 names of a limiter are counted
// together.
const Other = "(other)"

// maxIndex is how many rules of a limiter are found by their index. Others are found by
// their name, which takes some 10 ns.
const maxIndex = 64

// stripes is how many copies of each counter there are, so that processors seldom wait for
// each other.
const stripes = 8

// stripeOf returns which copy of the counters to use for o, which is on the stack of the
// calling goroutine. No two goroutines share a stack, so its address spreads them. A random
// number does so more evenly, and takes 4 ns.
func stripeOf(o *core.Outcome) uint {
	const goldenRatio = 0x9e3779b97f4a7c15 // Knuth, The Art of Computer Programming, volume 3, section 6.4
	return uint(uint64(uintptr(unsafe.Pointer(o))>>11)*goldenRatio>>61) % stripes
}

// see makes the counters of rules that are in force, and notes where they are.
func (l *Counters) see(states []core.RuleState) {
	for i := range states {
		if r := l.ruleOf(states[i].Name); i < maxIndex && l.byIndex[i].Load() != r {
			l.byIndex[i].Store(r)
		}
	}
}

// count counts one request. The commonest kind comes first: its only rule allowed it.
func (l *Counters) count(o *core.Outcome) {
	if o.Len() == 1 && o.Allowed() {
		if d := o.At(0); d.Allowed && d.Source.Counted() && d.Cost == 1 && d.Delay == 0 {
			k := aloneTaken
			if isNear(d) {
				k = aloneNear
			}
			l.rule(d).stripes[stripeOf(o)].cells[cell(d.Source, d.Mode() == core.Shadow, k)].Add(1)
			return
		}
	}
	l.countAny(o)
}

// countAny counts one request of whatever kind.
func (l *Counters) countAny(o *core.Outcome) {
	stripe, verdict := stripeOf(o), o.Verdict()
	denies, counted := false, false // whether a rule says no, and counts the request, too
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
		r := l.rule(d)
		r.count(stripe, k, d)
		if !d.Source.Counted() {
			r.failed[failure.Of(o.Err(), d.Rule(), d.Source)].Add(1)
		}
	}
	if of := &l.verdicts[stripe].of; !counted && int(verdict) < len(of) {
		of[verdict].Add(1)
	}
	if denies {
		l.denials.note(o, binding)
	}
}

// rule returns the counters of the rule of d.
func (l *Counters) rule(d *core.RuleDecision) *rule {
	i := d.Index()
	if uint(i) >= maxIndex {
		return l.ruleOf(d.Rule())
	}
	r := l.byIndex[i].Load()
	switch {
	case r == nil:
		r = l.ruleOf(d.Rule())
		l.byIndex[i].Store(r)
	case r.name != d.Rule(): // until see is called again, or because two limiters use l
		r = l.ruleOf(d.Rule())
	}
	return r
}

// ruleOf returns the counters of a rule, which it makes if there are none.
func (l *Counters) ruleOf(name string) *rule {
	rules := *l.byName.Load()
	if r := rules[name]; r != nil {
		return r
	}
	if len(rules) > maxRules {
		return rules[Other]
	}
	return l.addRule(name)
}

func (l *Counters) addRule(name string) *rule {
	name = label(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	rules := make(map[string]*rule)
	for known, r := range *l.byName.Load() {
		rules[known] = r
	}
	if len(rules) >= maxRules {
		name = Other
	}
	if r := rules[name]; r != nil {
		return r
	}
	r := newRule(name, len(l.rules))
	rules[name] = r
	l.rules = append(l.rules, r)
	l.byName.Store(&rules)
	return r
}

func (l *Counters) allRules() []*rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.rules)
}
