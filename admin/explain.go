package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/operator"
	"github.com/weir-go/weir/limits"
)

// explainTime is the time limit for a backend.
const explainTime = 2 * time.Second

// explainer answers questions: what the rules say of a key or of a request. Nothing is taken.
type explainer struct {
	limiters *limiters
	rows     *rows
	mask     *masker
	policy   Policy
}

func (e *explainer) explain(r *http.Request, q operator.Question) (*operator.Reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTime)
	defer cancel()
	if q.Request != nil {
		return e.explainRequest(ctx, &q)
	}
	limit, err := parseLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	at, err := e.rows.named(q.ID, q.Limiter, q.Rule, q.Key)
	if err != nil {
		return nil, err
	}
	if limit == (limits.Limit{}) {
		limit = at.limit
	}
	name, limiter, err := e.limiters.named(at.limiter)
	if err != nil {
		return nil, err
	}
	at.limiter = name
	if at.rule != "" {
		if _, err := ruleOf(limiter, at.rule); err != nil {
			return nil, err
		}
	}
	a := &operator.Reply{Rules: []operator.Verdict{}}
	for _, rule := range limiter.State().Rules {
		if at.rule == "" || at.rule == rule.Name {
			a.Rules = append(a.Rules, e.explainKey(ctx, limiter, at, &rule, limit))
		}
	}
	return a, nil
}

// explainKey asks one rule about a key. limit is for rules with a LimitFor.
func (e *explainer) explainKey(
	ctx context.Context, limiter Limiter, at row, rule *core.RuleState, limit limits.Limit,
) operator.Verdict {
	v := operator.Verdict{
		Rule: rule.Name, Mode: rule.Mode.String(), Hidden: rule.Hidden, Matches: true, Cost: 1,
	}
	v.Kind, v.Key = e.mask.show(at.key, rule.KeyName)
	switch {
	case rule.Mode == core.Disabled:
		v.Matches, v.Why = false, "the rule is disabled"
		return v
	case keyOverride(limiter, rule.Name, at.key) != (limits.Limit{}):
		limit = keyOverride(limiter, rule.Name, at.key)
	case rule.Limit != (limits.Limit{}):
		limit = rule.Limit
	case limit == (limits.Limit{}):
		v.Why = "the limit of this rule depends on the request: type a limit, or explain a request"
		return v
	}
	v.Limit = limit.String()
	d, err := limiter.ExplainKey(ctx, rule.Name, at.key, limit)
	if err != nil {
		v.Why = err.Error()
		return v
	}
	setNumbers(&v, &d)
	v.ID = e.rows.forgivable(row{at.limiter, rule.Name, at.key, limit})
	return v
}

// setNumbers sets the numbers of a decision.
func setNumbers(v *operator.Verdict, d *limits.Decision) {
	v.Counted, v.Allowed, v.Source = d.Source.Counted(), d.Allowed, d.Source.String()
	v.Remaining, v.RetryAfter, v.ResetAfter = d.Remaining, operator.Micros(d.RetryAfter),
		operator.Micros(d.ResetAfter)
}

// explainRequest explains a request with all rules of a limiter.
func (e *explainer) explainRequest(
	ctx context.Context, q *operator.Question,
) (*operator.Reply, error) {
	name, limiter, err := e.limiters.named(q.Limiter)
	if err != nil {
		return nil, err
	}
	explainer, ok := limiter.(RequestExplainer)
	if !ok {
		return nil, &failure{
			http.StatusUnprocessableEntity,
			"requests of this limiter's framework cannot be made up here: explain a key",
		}
	}
	r, err := buildRequest(ctx, q.Request)
	if err != nil {
		return nil, err
	}
	o := explainer.Explain(r)
	a := &operator.Reply{Verdict: o.Verdict().String(), Rules: []operator.Verdict{}}
	if err := o.Err(); err != nil {
		a.Error = err.Error()
	}
	if i := o.BindingRule(); i >= 0 {
		a.Binding = o.At(i).Rule()
	}
	decided := make(map[string]*core.RuleDecision, o.Len())
	for i := range o.Len() {
		decided[o.At(i).Rule()] = o.At(i)
	}
	for _, rule := range limiter.State().Rules {
		v := operator.Verdict{Rule: rule.Name, Mode: rule.Mode.String(), Hidden: rule.Hidden}
		if d, ok := decided[rule.Name]; ok {
			v.Matches, v.Mode, v.Limit, v.Cost = true, d.Mode().String(), limitText(d.Limit()),
				d.Cost
			v.Kind, v.Key = e.mask.show(d.Key, rule.KeyName)
			setNumbers(&v, &d.Decision)
			if d.Key != "" || d.Source.Counted() { // otherwise the key function may have failed
				v.ID = e.rows.forgivable(row{name, rule.Name, d.Key, d.Limit()})
			}
			v.Why = whyUncounted(d.Source)
		} else {
			v.Why = e.whyNot(&rule, r, &o)
		}
		a.Rules = append(a.Rules, v)
	}
	return a, nil
}

// whyUncounted returns why a decision has no numbers; "" if it has.
func whyUncounted(source limits.Source) string {
	switch source {
	case limits.SourceOpen:
		return "the rule could not be applied, and fails open"
	case limits.SourceClosed:
		return "the rule could not be applied"
	case limits.SourceNotAsked:
		return "was not asked: another rule decided"
	}
	return ""
}

// whyNot returns why a rule did not take part in an outcome.
func (e *explainer) whyNot(rule *core.RuleState, r *http.Request, o *core.Outcome) string {
	if rule.Mode == core.Disabled {
		return "the rule is disabled"
	}
	if policy, ok := e.policy.(reasoner); ok {
		if why := policy.WhyNot(rule.Name, r); why != "" {
			return why
		}
	}
	if o.Verdict() == core.Unavailable || o.Verdict() == core.Abandoned {
		return "was not reached"
	}
	return "its key function says that it does not apply"
}

// parseLimit reads a limit; "" is the zero Limit.
func parseLimit(text string) (limits.Limit, error) {
	if text == "" {
		return limits.Limit{}, nil
	}
	return limits.Parse(text)
}
