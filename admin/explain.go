package admin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// question asks for the decisions on a key, on a row of the page, or on a request.
type question struct {
	Limiter string
	Rule    string // "": all rules
	Key     *string
	ID      string // of a row, in place of Limiter, Rule and Key
	Limit   string // for rules whose limit depends on the request
	Request *requestText
}

// reply is the answer to a question.
type reply struct {
	Verdict string // of a request; "" for a key
	Error   string // of the request as a whole
	Binding string // the binding rule
	Rules   []verdict
}

// verdict is the decision of one rule. If the rule does not apply or cannot decide, Why has the
// reason and the numbers are meaningless.
type verdict struct {
	Rule, Mode string
	Matches    bool
	Counted    bool // the numbers are meaningful
	Allowed    bool
	Kind, Key  string
	ID         string // id to forgive the key; "": not possible
	Limit      string
	Source     string
	Cost       int64
	Remaining  int64
	RetryAfter int64
	ResetAfter int64
	Why        string
}

// explainTime is the time limit for a backend.
const explainTime = 2 * time.Second

func (p *page) explain(r *http.Request, q question) (*reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTime)
	defer cancel()
	if q.Request != nil {
		return p.explainRequest(ctx, &q)
	}
	limit, err := parseLimit(q.Limit)
	if err != nil {
		return nil, err
	}
	at, err := p.rowOf(q.ID, q.Limiter, q.Rule, q.Key)
	if err != nil {
		return nil, err
	}
	if limit == (limits.Limit{}) {
		limit = at.limit
	}
	name, limiter, err := p.limiter(at.limiter)
	if err != nil {
		return nil, err
	}
	at.limiter = name
	if at.rule != "" {
		if _, err := p.rule(limiter, at.rule); err != nil {
			return nil, err
		}
	}
	a := &reply{Rules: []verdict{}}
	for _, rule := range limiter.State().Rules {
		if at.rule == "" || at.rule == rule.Name {
			a.Rules = append(a.Rules, p.explainKey(ctx, limiter, at, &rule, limit))
		}
	}
	return a, nil
}

// explainKey asks one rule about a key. limit is for rules with a LimitFor.
func (p *page) explainKey(
	ctx context.Context, limiter Limiter, at row, rule *core.RuleState, limit limits.Limit,
) verdict {
	v := verdict{Rule: rule.Name, Mode: rule.Mode.String(), Matches: true, Cost: 1}
	v.Kind, v.Key = p.mask.show(at.key, rule.KeyName)
	switch {
	case rule.Mode == core.Disabled:
		v.Matches, v.Why = false, "the rule is disabled"
		return v
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
	v.decided(&d)
	v.ID = p.forgivable(at.limiter, rule.Name, at.key, limit)
	return v
}

// decided sets the numbers of a decision.
func (v *verdict) decided(d *limits.Decision) {
	v.Counted, v.Allowed, v.Source = d.Source.Counted(), d.Allowed, d.Source.String()
	v.Remaining, v.RetryAfter, v.ResetAfter = d.Remaining, micros(d.RetryAfter),
		micros(d.ResetAfter)
}

// forgivable returns the id of a row for a key. It returns "" if the limit cannot be reset, or if
// the key is too long for a row.
func (p *page) forgivable(limiter, rule, key string, limit limits.Limit) string {
	if limit.Algorithm().Holds() {
		return ""
	}
	return p.rows.id(row{limiter, rule, key, limit}, time.Now())
}

// limiter returns the named limiter and its name. "" stands for the only limiter.
func (p *page) limiter(name string) (string, Limiter, error) {
	if name == "" && len(p.names) == 1 {
		name = p.names[0]
	}
	if l := p.sources.Limiters[name]; l != nil {
		return name, l, nil
	}
	return "", nil, &failure{
		http.StatusNotFound,
		fmt.Sprintf("there is no limiter %.64q: the names are %q", name, p.names),
	}
}

// rule returns the state of a rule of a limiter.
func (p *page) rule(limiter Limiter, name string) (core.RuleState, error) {
	for _, state := range limiter.State().Rules {
		if state.Name == name {
			return state, nil
		}
	}
	return core.RuleState{},
		&failure{http.StatusNotFound, fmt.Sprintf("there is no rule %.64q", name)}
}

// rowOf returns the row that a request identifies by id, or by limiter, rule and key.
func (p *page) rowOf(id, limiter, rule string, key *string) (row, error) {
	if id != "" {
		r, ok := p.rows.find(id)
		if !ok {
			return row{},
				&failure{http.StatusNotFound, "this row is too old: look again, or type the key"}
		}
		return r, nil
	}
	if key == nil {
		return row{}, &failure{http.StatusBadRequest, "say which key, or which request"}
	}
	return row{limiter: limiter, rule: rule, key: *key}, nil
}

// parseLimit reads a limit; "" is the zero Limit.
func parseLimit(text string) (limits.Limit, error) {
	if text == "" {
		return limits.Limit{}, nil
	}
	return limits.Parse(text)
}
