package main

import (
	"cmp"
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/core"
)

// runCase returns the differences between a case and the decisions of t.
func runCase(file string, t *trial, c *testCase) (findings []finding) {
	name := cmp.Or(c.name, c.request.String())
	fail := func(n *yaml.Node, rule, field, format string, args ...any) {
		findings = append(findings, finding{
			File: file, Line: n.Line, Column: n.Column, Kind: failure, Case: name, Rule: rule,
			Field: field,
			Text:  fmt.Sprintf(format, args...),
		})
	}
	answers, err := t.ask(c.request, c.values)
	if err != nil {
		fail(c.at, "", "request", "%v", err)
		return findings
	}
	for i := range answers {
		a := &answers[i]
		rule := a.rule.Name
		want := c.rules[rule]
		switch {
		case want == nil && a.RuleDecision != nil:
			fail(c.at, rule, "", "applies, and the case does not name it: add it to rules, or "+
				"except the request from the rule")
		case want == nil:
		case a.RuleDecision == nil:
			fail(want.at, rule, "", "does not apply: %s", a.why)
		case a.err != nil:
			fail(want.at, rule, "", "cannot be applied: %v", a.err)
		default:
			want.compare(a, func(n *yaml.Node, field, got, wanted string) {
				fail(n, rule, field, "want %s, got %s", wanted, got)
			})
		}
	}
	return findings
}

// compare calls differs for each difference between a and the expectation.
func (e *expectation) compare(a *answer, differs func(n *yaml.Node, field, got, want string)) {
	if e.key != nil && *e.key != a.Key {
		differs(e.keyAt, "key", a.showKey(a.Key), e.keyText)
	}
	if e.limit != nil && *e.limit != a.Limit() {
		differs(e.limitAt, "limit", a.Limit().String(), e.limit.String())
	}
	if e.cost != nil && *e.cost != a.Cost {
		differs(e.costAt, "cost", fmt.Sprint(a.Cost), fmt.Sprint(*e.cost))
	}
	if e.mode != nil && (*e.mode == core.Shadow) != (a.Mode() == core.Shadow) {
		differs(e.modeAt, "mode", a.Mode().String(), e.mode.String())
	}
}
