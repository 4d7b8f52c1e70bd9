package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/policy"
)

// trial is a policy whose rules are tried on requests from people. Values that come with a request
// replace the functions of the program.
type trial struct {
	policy  *policy.Policy[*http.Request]
	outline *policy.Outline
	rules   []core.Rule[*http.Request]
	// one for each rule, so that a failing rule hides no other; nil: disabled
	limiters []*core.Limiter[*http.Request]
}

// newTrial parses a policy. Its error is that of [policy.Parse].
func newTrial(name string, text []byte) (*trial, error) {
	outline, err := policy.ReadOutline(name, text)
	if err != nil {
		return nil, err
	}
	// People give the name of the agent, like the result of a function of the program.
	if slices.ContainsFunc(outline.Rules, func(r policy.RuleOutline) bool { return r.Agent }) {
		outline.Keys = append(outline.Keys, "agent")
	}
	p, err := policy.Parse(name, text, namesOf(outline))
	if err != nil {
		return nil, err
	}
	t := &trial{policy: p, outline: outline, rules: p.Rules()}
	store := memory.MustNew(memory.Options{})
	for _, rule := range t.rules {
		if rule.Mode == core.Disabled {
			t.limiters = append(t.limiters, nil)
			continue
		}
		l, err := core.New(core.Config[*http.Request]{
			Rules: []core.Rule[*http.Request]{rule}, Backend: store,
		})
		if err != nil {
			return nil, err
		}
		t.limiters = append(t.limiters, l)
	}
	return t, nil
}

// loadTrial reads the named policy. A policy with mistakes is an error.
func loadTrial(c *cobra.Command, name string) (*trial, error) {
	shown, text, err := readInput(c, name)
	if err != nil {
		return nil, err
	}
	t, err := newTrial(shown, text)
	if mistakes := policy.Mistakes(err); mistakes != nil {
		return nil,
			fmt.Errorf("the policy has %s, so nothing can be said of it:\n%w",
				count(len(mistakes), "mistake"), err)
	}
	return t, err
}

// values replace the functions of a program, by the names in the file. asked collects the names
// that were used.
type values struct {
	given map[string]string
	asked []string
}

type valuesKey struct{}

// valueOf returns the result of the named function for r.
func valueOf(r *http.Request, name string) (string, bool) {
	v := r.Context().Value(valuesKey{}).(*values)
	text, ok := v.given[name]
	if !slices.Contains(v.asked, name) {
		v.asked = append(v.asked, name)
	}
	return text, ok
}

// namesOf supplies the functions that a file needs.
func namesOf(o *policy.Outline) policy.Names[*http.Request] {
	names := policy.Names[*http.Request]{
		Keys:  make(map[string]func(*http.Request) (string, error)),
		Plans: make(map[string]func(*http.Request) (string, error)),
		Costs: make(map[string]func(*http.Request) int64),
	}
	text := func(name string) func(*http.Request) (string, error) {
		return func(r *http.Request) (string, error) {
			if s, ok := valueOf(r, name); ok {
				return s, nil
			}
			return "", core.ErrAbsent
		}
	}
	for _, name := range o.Keys {
		names.Keys[name] = text(name)
	}
	names.Agents = func(policy.Agents) (func(*http.Request) (string, error), error) { return text("agent"), nil }
	for _, name := range o.Plans {
		names.Plans[name] = text(name)
	}
	for _, name := range o.Costs {
		names.Costs[name] = func(r *http.Request) int64 {
			if s, ok := valueOf(r, name); ok {
				cost, _ := strconv.ParseInt(s, 10, 64) // checkValue has checked it
				return cost
			}
			return 1
		}
	}
	return names
}

// checkValue returns an error if a value for the program is not valid.
func (t *trial) checkValue(name, value string) error {
	if slices.Contains(t.outline.Costs, name) {
		if cost, err := strconv.ParseInt(value, 10, 64); err != nil || cost < 0 {
			return fmt.Errorf("%s is a cost: its value must be a number of units (got %.80q)", name,
				value)
		}
		return nil
	}
	if slices.Contains(t.outline.Keys, name) || slices.Contains(t.outline.Plans, name) {
		return nil
	}
	all := slices.Concat(t.outline.Keys, t.outline.Plans, t.outline.Costs)
	if len(all) == 0 {
		return fmt.Errorf("the policy declares no names under program, so %.80q stands for "+
			"nothing: remove it", name)
	}
	return fmt.Errorf("the policy does not declare %.80q under program: it declares %s", name,
		strings.Join(all, ", "))
}

// declares reports whether the policy has name under program.
func (t *trial) declares(name string) bool {
	return slices.Contains(t.outline.Keys, name) || slices.Contains(t.outline.Plans, name) ||
		slices.Contains(t.outline.Costs, name)
}

// oneValue returns an error if value contains a comma followed by another name of the policy.
// --field of simulate takes lists; --program does not, since keys may contain commas.
func (t *trial) oneValue(value string) error {
	for _, part := range strings.Split(value, ",")[1:] {
		if name, _, ok := strings.Cut(part, "="); ok && t.declares(name) {
			return fmt.Errorf(
				"each name needs a flag of its own: write --program %.80s (got %.80q)", part, value)
		}
	}
	return nil
}

// ruleNames returns the names of the rules, for errors.
func (t *trial) ruleNames() string {
	names := make([]string, len(t.rules))
	for i := range t.rules {
		names[i] = t.rules[i].Name
	}
	return strings.Join(names, ", ")
}

// readsSecret reports whether a rule reads the header field as a credential.
func (t *trial) readsSecret(name string) bool {
	for _, rule := range t.outline.Rules {
		if slices.Contains(rule.Sources, "api-key "+name) {
			return true
		}
	}
	return false
}

// ask returns the decision of each rule on a request, in the order of the file. given holds the
// results of the functions of the program.
func (t *trial) ask(m *madeUp, given map[string]string) ([]answer, error) {
	answers := make([]answer, len(t.rules))
	for i := range t.rules {
		v := &values{given: given}
		r, err := m.build(context.WithValue(context.Background(), valuesKey{}, v))
		if err != nil {
			return nil, err
		}
		a := &answers[i]
		a.rule, a.outline = &t.rules[i], &t.outline.Rules[i]
		if l := t.limiters[i]; l != nil {
			o := l.Explain(r.Context(), r)
			if a.err = withoutRule(o.Err(), a.rule.Name); o.Len() > 0 {
				a.RuleDecision = o.At(0)
			}
		}
		if a.RuleDecision == nil {
			a.why = t.policy.WhyNot(a.rule.Name, r)
		}
		a.asked = v.asked
	}
	return answers, nil
}

// explain returns the decisions of a policy on a request that comes first.
func (t *trial) explain(m *madeUp, answers []answer, given map[string]string) *explanation {
	e := &explanation{Request: m.String(), Verdict: allowed}
	missing := make(map[string]bool)
	for i := range answers {
		a := &answers[i]
		r := ruleExplanation{
			Rule: a.rule.Name, Applies: a.RuleDecision != nil, Mode: a.rule.Mode.String(),
			Why: a.why,
		}
		if a.RuleDecision != nil {
			r.Mode = a.Mode().String()
			r.ruleCharge = &ruleCharge{
				Key: a.showKey(a.Key), Limit: a.Limit().String(), Cost: a.Cost, Allowed: a.Allowed,
			}
			r.Notes = a.notes(given)
			for _, name := range a.asked {
				if _, ok := given[name]; !ok && !missing[name] {
					e.Notes = append(e.Notes,
						fmt.Sprintf("%s has no value, so %s: give it one by --program %s=…", name,
							t.without(name), name))
					missing[name] = true
				}
			}
		}
		if a.err != nil {
			r.ruleCharge, r.Why = nil, "cannot be applied: "+a.err.Error()
		}
		e.Rules = append(e.Rules, r)
	}
	e.judge()
	return e
}

// without describes the effect of a function of the program that has no value for a request.
func (t *trial) without(name string) string {
	if slices.Contains(t.outline.Costs, name) {
		return "the request costs 1"
	}
	return "it is absent"
}

// withoutRule returns err without the name of its rule, which is printed elsewhere.
func withoutRule(err error, rule string) error {
	if err == nil {
		return nil
	}
	return errors.New(
		strings.ReplaceAll(strings.TrimPrefix(err.Error(), fmt.Sprintf("core: rule %q: ", rule)),
			"\n", "; "))
}
