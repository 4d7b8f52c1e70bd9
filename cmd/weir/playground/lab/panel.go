package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

// panel is one of the limiters.
type panel struct {
	lab     *Lab
	index   int
	text    string
	rules   []*rule
	limiter *core.Limiter[request] // nil: the text has a mistake

	allowed, denied int64
	history         history
	proof           proof
}

// request is what limiters decide.
type request struct {
	cost  int64
	value string
}

// maxAttempts is the maximal number of attempts of a request.
const maxAttempts = 20

func newPanel(l *Lab, index int, plan panelPlan) *panel {
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
		p.rules = append(p.rules, &rule{
			name: name, scope: scope, limit: r.limit, memory: l.memory, start: l.start, free: free,
		})
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
	if p.history.writer, err = headers.New(headers.Options{}, rules); err != nil {
		panic(err) // cannot fail: a limiter accepted these names and limits
	}
	for _, r := range p.rules {
		if at, ok := r.turnAfter(-1); ok {
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
	before := p.rules[0].gauge().Level
	var o core.Outcome
	ends := p.limiter.DecideInto(context.Background(), r, &o)
	e := Event{Panel: p.index, At: l.now, Verdict: o.Verdict(), Cost: cost, Attempt: attempt,
		Retry: o.RetryAfter(), Delay: o.Delay()}
	if i := o.BindingRule(); i >= 0 {
		e.Left = o.At(i).Remaining
	}
	e.Before, e.Level = before, p.rules[0].gauge().Level
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
	p.history.add(answer{at: l.now, cost: cost, attempt: attempt, outcome: o})
	l.events = append(l.events, e)
}

// opens records when the windows and bans that a decision began will end, if each key has its own.
func (p *panel) opens(o *core.Outcome) {
	for i := range o.Len() {
		d, r := o.At(i), p.rules[i]
		if _, shared := r.turnAfter(p.lab.now); shared || !algorithm.Of(d.Limit().Algorithm()).Ends {
			continue
		}
		at := p.lab.now + d.ResetAfter.Microseconds()
		if d.ResetAfter > 0 && at != r.turnAt {
			r.turnAt = at
			p.lab.agenda.add(task{at: at, kind: taskTurn, panel: p, rule: r})
		}
	}
}

// turn reports the end of a window or ban of a rule.
func (p *panel) turn(r *rule) {
	l := p.lab
	if at, ok := r.turnAfter(l.now); ok {
		l.agenda.add(task{at: at, kind: taskTurn, panel: p, rule: r})
	} else if l.now != r.turnAt {
		return // replaced by a later end
	}
	l.events = append(l.events, Event{Kind: Turn, Panel: p.index, At: l.now, Verdict: core.Allowed})
}

// arm starts a proof for a denial. Concurrency limits get no proof: the end of a request is not
// known, so their wait is a guess.
func (p *panel) arm(o *core.Outcome, denied request) {
	wait := o.RetryAfter()
	if wait <= 0 || wait == limits.Never {
		return
	}
	for _, r := range p.rules {
		if r.limit.Algorithm().Holds() {
			return
		}
	}
	at := p.lab.now + wait.Microseconds()
	if !p.proof.arm(at, denied) {
		return
	}
	for _, t := range [...]int64{at - 1, at} {
		p.lab.agenda.add(task{at: t, kind: taskProbe, panel: p, serial: p.proof.serial})
	}
}

// probe repeats the denied request.
func (p *panel) probe(t task) {
	if t.serial != p.proof.serial || !p.proof.armed {
		return
	}
	o := p.limiter.Explain(context.Background(), p.proof.request)
	p.proof.see(o.Verdict())
	p.lab.events = append(p.lab.events, Event{
		Kind: Probe, Panel: p.index, At: p.lab.now, Verdict: o.Verdict(), Cost: p.proof.cost,
		Retry: o.RetryAfter(),
	})
}

// PanelInfo describes a panel.
type PanelInfo struct {
	Text  string
	Rules []RuleInfo // none: the text has a mistake
}

// RuleInfo describes a rule of a panel.
type RuleInfo struct {
	Name, Limit string
	Algorithm   string
	Picture     string // how the page draws it
	Bans        bool   // it denies everything for a time
}

// info describes the panel.
func (p *panel) info() PanelInfo {
	info := PanelInfo{Text: p.text}
	for _, r := range p.rules {
		a := r.limit.Algorithm()
		row := algorithm.Of(a)
		info.Rules = append(info.Rules, RuleInfo{
			Name: r.name, Limit: r.limit.String(), Algorithm: a.String(),
			Picture: string(row.Picture), Bans: row.Bans,
		})
	}
	return info
}
