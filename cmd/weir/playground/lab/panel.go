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

// panel is a limiter that gets the stream.
type panel struct {
	lab     *Lab
	index   int
	text    string
	rules   []*rule
	limiter *core.Limiter[request] // nil: the text is wrong
	writer  *headers.Writer

	allowed, denied int64
	answers         []answer // the latest, the last one last
	taken           int64    // how many requests took something
	proof           proof
}

// rule is a rule of a panel, and what it would say now.
type rule struct {
	name  string
	scope string
	limit limits.Limit
	free  time.Duration // what units of a queue that go on at once take to leave it

	turnAt int64 // when the window or ban ends that a decision began; 0: none did
}

// request is what limiters decide.
type request struct{ cost int64 }

// nobody is the key of all requests.
const nobody = "client"

// maxAnswers is how many answers of a panel can be looked at.
const maxAnswers = 100

// maxAttempts is how often a request comes back.
const maxAttempts = 20

func (l *Lab) newPanel(index int, plan panelPlan) *panel {
	p := &panel{lab: l, index: index, text: plan.text}
	var rules []core.Rule[request]
	for _, r := range plan.rules {
		first := cmp.Or(r.name, r.limit.Algorithm().String())
		name := first
		for n := 2; slices.ContainsFunc(p.rules, func(r *rule) bool { return r.name == name }); n++ {
			name = fmt.Sprintf("%s-%d", first, n)
		}
		scope := fmt.Sprintf("%d %s", index, name)
		free := time.Duration(0)
		if rate := r.limit.Rate(); r.undelayed > 0 {
			free = time.Duration(r.undelayed * rate.Period.Microseconds() / rate.Units * 1000)
		}
		p.rules = append(p.rules, &rule{name: name, scope: scope, limit: r.limit, free: free})
		rules = append(rules, core.Rule[request]{
			Name: name, Scope: scope, Limit: r.limit, NoDelay: r.undelayed,
			Key:  func(request) (string, error) { return nobody, nil },
			Cost: func(r request) int64 { return r.cost },
		})
	}
	if len(rules) == 0 {
		return p
	}
	p.limiter = core.MustNew(core.Config[request]{Rules: rules, Backend: l.memory})
	var err error
	if p.writer, err = headers.New(headers.Options{}, rules); err != nil {
		panic(err) // names and limits are those of a limiter
	}
	for _, r := range p.rules {
		if at, ok := l.turnAfter(r, -1); ok {
			l.agenda.add(task{at: at, kind: taskTurn, panel: p, rule: r})
		}
	}
	return p
}

// decide decides a request that comes now.
func (p *panel) decide(cost, attempt int64) {
	if p.limiter == nil {
		return
	}
	l := p.lab
	before := l.gauge(p.rules[0]).Level
	var o core.Outcome
	ends := p.limiter.DecideInto(context.Background(), request{cost}, &o)
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
			l.agenda.add(task{at: l.now + o.Delay().Microseconds() + l.plan.lasts, kind: taskEnd, outcome: &kept})
		}
		p.opens(&o)
	} else {
		p.denied++
		if l.plan.retry && o.RetryAfter() > 0 && o.RetryAfter() != limits.Never && attempt < maxAttempts {
			wait := o.RetryAfter().Microseconds()
			if l.plan.jitter > 0 {
				wait += l.chance.Int64N(l.plan.jitter)
			}
			l.agenda.add(task{at: l.now + wait, kind: taskRetry, panel: p, move: move{cost: cost}, attempt: attempt + 1})
		}
		p.arm(&o, cost)
	}
	if len(p.answers) == maxAnswers {
		p.answers = slices.Delete(p.answers, 0, maxAnswers/2)
	}
	p.taken++
	p.answers = append(p.answers, answer{p.taken, l.now, cost, attempt, o})
	l.events = append(l.events, e)
}

// opens notes when the windows and bans end that a decision has begun.
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

// turnAfter returns when the window ends that is open at an instant, if all keys have the same windows.
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
		return // a later end has replaced this one
	}
	l.events = append(l.events, Event{Kind: Turn, Panel: p.index, At: l.now, Verdict: core.Allowed})
}

// Gauge is what a rule of a panel would say now. It is asked without taking.
type Gauge struct {
	Remaining, Most int64
	Level           float64       // Remaining of Most, 0 to 1; between two units of a bucket, too
	Next            time.Duration // until there is one unit more; 0: there are all; limits.Never: nobody knows
	Delay           time.Duration // that a request of one unit would wait for its turn
	Reset           time.Duration
}

// gauge asks what r would say now.
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

// peek returns the decision on a charge, which is not taken.
func (l *Lab) peek(r *rule, cost int64) limits.Decision {
	out := make([]limits.Decision, 1)
	if err := l.memory.Peek(context.Background(), []backends.Charge{{Scope: r.scope, Key: nobody, Limit: r.limit, Cost: cost}}, out); err != nil {
		return limits.Decision{}
	}
	return out[0]
}

// share returns how much of what limit allows at most remaining is, 0 to 1.
func share(remaining int64, limit limits.Limit) float64 {
	return float64(remaining) / float64(max(1, limit.Burst()))
}
