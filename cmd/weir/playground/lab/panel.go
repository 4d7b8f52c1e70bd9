package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// panel is one of the limiters.
type panel struct {
	lab     *Lab
	index   int
	text    string
	rules   []*rule
	limiter *core.Limiter[request] // nil: the text has a mistake
	writer  *headers.Writer

	allowed, denied int64
	answers         []answer // history of answers, oldest first
	taken           int64    // requests that took units
	proof           proof
}

// rule is a rule of a panel with its current state.
type rule struct {
	name  string
	scope string
	limit limits.Limit
	free  time.Duration // time in which a queue drains the units that go on at once

	turnAt int64 // end of the window or ban that a decision began; 0: none
}

// request is what limiters decide.
type request struct {
	cost  int64
	value string
}

// clientKey is the key of all requests.
const clientKey = "client"

// maxAnswers is the length of the history of a panel.
const maxAnswers = 100

// maxAttempts is the maximal number of attempts of a request.
const maxAttempts = 20

func (l *Lab) newPanel(index int, plan panelPlan) *panel {
	p := &panel{lab: l, index: index, text: plan.text}
	var rules []core.Rule[request]
	for _, r := range plan.rules {
		first := cmp.Or(r.name, r.limit.Algorithm().String())
		name := first
		for n := 2; slices.ContainsFunc(p.rules,
			func(r *rule) bool { return r.name == name }); n++ {
			name = fmt.Sprintf("%s-%d", first, n)
		}
		scope := fmt.Sprintf("%d %s", index, name)
		free := time.Duration(0)
		if rate := r.limit.Rate(); r.undelayed > 0 {
			free = time.Duration(r.undelayed * rate.Period.Microseconds() / rate.Units * 1000)
		}
		p.rules = append(p.rules, &rule{name: name, scope: scope, limit: r.limit, free: free})
		added := core.Rule[request]{
			Name: name, Scope: scope, Limit: r.limit, NoDelay: r.undelayed,
			Key:  func(request) (string, error) { return clientKey, nil },
			Cost: func(r request) int64 { return r.cost },
		}
		if r.limit.Algorithm().CountsValues() {
			added.Cost, added.Value = nil, func(r request) (string, error) { return r.value, nil }
		}
		rules = append(rules, added)
	}
	if len(rules) == 0 {
		return p
	}
	p.limiter = core.MustNew(core.Config[request]{Rules: rules, Backend: l.memory})
	var err error
	if p.writer, err = headers.New(headers.Options{}, rules); err != nil {
		panic(err) // cannot fail: a limiter accepted these names and limits
	}
	for _, r := range p.rules {
		if at, ok := l.turnAfter(r, -1); ok {
			l.agenda.add(task{at: at, kind: taskTurn, panel: p, rule: r})
		}
	}
	return p
}

// decide decides r now.
func (p *panel) decide(r request, attempt int64) {
	if p.limiter == nil {
		return
	}
	l, cost := p.lab, r.cost
	before := l.gauge(p.rules[0]).Level
	var o core.Outcome
	ends := p.limiter.DecideInto(context.Background(), r, &o)
	e := Event{Panel: p.index, At: l.now, Verdict: o.Verdict(), Cost: cost, Attempt: attempt,
		Retry: o.RetryAfter(), Delay: o.Delay()}
	if i := o.BindingRule(); i >= 0 {
		e.Left = o.At(i).Remaining
	}
	e.Before, e.Level = before, l.gauge(p.rules[0]).Level
	if o.Allowed() {
		p.allowed++
		if cost > 0 {
			p.proof.disarm()
		}
		if ends {
			kept := o
			l.agenda.add(task{
				at: l.now + o.Delay().Microseconds() + l.plan.lasts, kind: taskEnd, outcome: &kept,
			})
		}
		p.opens(&o)
	} else {
		p.denied++
		if l.plan.retry && o.RetryAfter() > 0 && o.RetryAfter() != limits.Never &&
			attempt < maxAttempts {
			wait := o.RetryAfter().Microseconds()
			if l.plan.jitter > 0 {
				wait += l.chance.Int64N(l.plan.jitter)
			}
			l.agenda.add(task{
				at: l.now + wait, kind: taskRetry, panel: p,
				move: move{cost: cost, value: r.value}, attempt: attempt + 1,
			})
		}
		p.arm(&o, r)
	}
	if len(p.answers) == maxAnswers {
		p.answers = slices.Delete(p.answers, 0, maxAnswers/2)
	}
	p.taken++
	p.answers = append(p.answers, answer{p.taken, l.now, cost, attempt, o})
	l.events = append(l.events, e)
}

// opens records when the windows and bans that a decision began will end.
func (p *panel) opens(o *core.Outcome) {
	for i := range o.Len() {
		d, r := o.At(i), p.rules[i]
		switch d.Limit().Algorithm() {
		case limits.AlgorithmAnchoredWindow, limits.AlgorithmBan:
			at := p.lab.now + d.ResetAfter.Microseconds()
			if d.ResetAfter > 0 && at != r.turnAt {
				r.turnAt = at
				p.lab.agenda.add(task{at: at, kind: taskTurn, panel: p, rule: r})
			}
		}
	}
}

// turnAfter returns the end of the window that is open at a time, if all keys share the same
// windows.
func (l *Lab) turnAfter(r *rule, at int64) (end int64, ok bool) {
	_, turn, ok := r.limit.Window(time.UnixMicro(l.start + at))
	return turn.UnixMicro() - l.start, ok
}

// turn reports the end of a window or ban of a rule.
func (p *panel) turn(r *rule) {
	l := p.lab
	if at, ok := l.turnAfter(r, l.now); ok {
		l.agenda.add(task{at: at, kind: taskTurn, panel: p, rule: r})
	} else if l.now != r.turnAt {
		return // replaced by a later end
	}
	l.events = append(l.events, Event{Kind: Turn, Panel: p.index, At: l.now, Verdict: core.Allowed})
}

// Gauge is the current state of a rule of a panel.
type Gauge struct {
	Remaining, Most int64
	Level           float64       // Remaining of Most, 0 to 1, including fractions of a unit
	Next            time.Duration // time to one more unit; 0: full; limits.Never: unknown
	Delay           time.Duration // wait of a request of one unit in the queue
	Reset           time.Duration
}

// gauge returns the state of r now.
func (l *Lab) gauge(r *rule) Gauge {
	d := l.peek(r, 1)
	g := Gauge{Remaining: d.Remaining, Most: r.limit.Burst(), Level: share(d.Remaining, r.limit),
		Delay: max(0, d.Delay-r.free), Reset: d.ResetAfter}
	switch a := r.limit.Algorithm(); {
	case g.Remaining >= g.Most:
	case a.Holds():
		g.Next = limits.Never
	case a == limits.AlgorithmBan: // allows any cost until it bans
		if g.Next = d.RetryAfter; d.Allowed {
			g.Next = d.ResetAfter
		}
	case a.CountsValues() && g.Remaining > 0:
		// the next value leaves when a new one would fit into a full limit
		full := *r
		full.limit = r.limit.WithUnits(g.Most - g.Remaining)
		g.Next = l.peek(&full, 1).RetryAfter
	default:
		g.Next = l.peek(r, g.Remaining+1).RetryAfter
	}
	if r.limit.Algorithm().HasBurst() {
		unit := float64(r.limit.Rate().Period) / float64(r.limit.Rate().Units)
		if part := 1 - float64(g.Next)/unit; g.Remaining < g.Most && part > 0 {
			g.Level += part / float64(g.Most)
		}
	}
	return g
}

// peek returns the decision on a charge without taking units.
func (l *Lab) peek(r *rule, cost int64) limits.Decision {
	out := make([]limits.Decision, 1)
	charge := backends.Charge{Scope: r.scope, Key: clientKey, Limit: r.limit, Cost: cost}
	if err := l.memory.Peek(context.Background(), []backends.Charge{charge}, out); err != nil {
		return limits.Decision{}
	}
	return out[0]
}

// share returns remaining as a share of the most that limit allows, 0 to 1.
func share(remaining int64, limit limits.Limit) float64 {
	return float64(remaining) / float64(max(1, limit.Burst()))
}
