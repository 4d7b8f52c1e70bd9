package simulate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Condition compares a number of a report, such as denied > 1%.
type Condition struct {
	text    string
	metric  string
	rule    string // "": the whole policy
	op      string
	number  float64
	percent bool
}

// Metrics describes what a [Condition] may compare.
const Metrics = `denied, denied(RULE)     requests denied, or their share of all requests, such as 1%
clients, clients(RULE)   clients denied at least once, or their share; of a rule: keys
wait, wait(RULE)         the longest wait, such as 30s
newly-denied             requests that --against allows, or their share
newly-allowed            requests that --against denies, or their share
unread                   damaged lines, or their share`

const conditionForm = `^\s*([a-z-]+)(?:\((.+)\))?\s*(<=|>=|<|>)\s*([0-9.]+)\s*(%|ms|s|m|h)?\s*$`

// ParseCondition parses a condition: a metric, one of < <= > >=, and a number.
func ParseCondition(text string) (*Condition, error) {
	bad := func(why string) error {
		return fmt.Errorf("%q: %s: write a condition such as 'denied > 1%%'", text, why)
	}
	m := regexp.MustCompile(conditionForm).FindStringSubmatch(text)
	if m == nil {
		return nil, bad("is no condition")
	}
	c := &Condition{text: strings.TrimSpace(text), metric: m[1], rule: m[2], op: m[3]}
	number, err := strconv.ParseFloat(m[4], 64)
	if err != nil {
		return nil, bad("the number cannot be read")
	}
	c.number = number
	byRule, share, isTime := false, false, false
	switch c.metric {
	case "denied", "clients":
		byRule, share = true, true
	case "wait":
		byRule, isTime = true, true
	case "newly-denied", "newly-allowed", "unread":
		share = true
	default:
		return nil, bad("there is no metric " + c.metric)
	}
	unit := m[5]
	switch {
	case c.rule != "" && !byRule:
		return nil, bad(c.metric + " is not of a rule")
	case unit == "%" && share:
		c.percent = true
	case unit != "" && unit != "%" && isTime:
		d, err := time.ParseDuration(m[4] + unit)
		if err != nil {
			return nil, bad("the time cannot be read")
		}
		c.number = float64(d.Milliseconds())
	case isTime:
		return nil, bad("a wait needs a unit, such as 30s")
	case unit != "":
		return nil, bad("the unit " + unit + " does not fit")
	}
	return c, nil
}

// String returns the condition as it was written.
func (c *Condition) String() string { return c.text }

// compares reports whether n meets the comparison. of is the whole for a share.
func (c *Condition) compares(n, total int64) bool {
	left, right := float64(n), c.number
	if c.percent {
		left, right = left*100, right*float64(total)
	}
	switch c.op {
	case "<":
		return left < right
	case "<=":
		return left <= right
	case ">":
		return left > right
	}
	return left >= right
}

// NeedsAgainst reports whether c compares two policies.
func (c *Condition) NeedsAgainst() bool { return strings.HasPrefix(c.metric, "newly-") }

// CheckRule returns an error if p does not have the rule of c, so that a misspelt name is found
// before the logs are read.
func (c *Condition) CheckRule(p *Policy) error {
	if c.rule == "" || p.hasRule(c.rule) {
		return nil
	}
	return fmt.Errorf("%q: the policy has no rule %q: its rules are %s", c.text, c.rule,
		p.ruleNames())
}

// CanSuggest reports whether a higher limit can meet c.
func (c *Condition) CanSuggest() bool {
	return !c.isUpper() && (c.metric == "denied" || c.metric == "clients") && c.rule == ""
}

// isUpper reports whether c requires a large number.
func (c *Condition) isUpper() bool { return c.op[0] == '>' }

// MayHold reports whether c holds in one reading of the log. It also returns the number that c
// compares.
func (c *Condition) MayHold(r *Report) (holds bool, got Range, err error) {
	got, of, err := c.find(r)
	if err != nil {
		return false, got, err
	}
	return c.compares(got.Low, of) || c.compares(got.High, of), got, nil
}

// ruleNames returns the rules that were simulated.
func ruleNames(r *Report) string {
	names := make([]string, len(r.Policy.Rules))
	for i := range r.Policy.Rules {
		names[i] = r.Policy.Rules[i].Name
	}
	return strings.Join(names, ", ")
}

// find returns the number that c compares, and the whole for a share.
func (c *Condition) find(r *Report) (got Range, total int64, err error) {
	var rule *Rule
	if c.rule != "" {
		for i := range r.Policy.Rules {
			if r.Policy.Rules[i].Name == c.rule {
				rule = &r.Policy.Rules[i]
			}
		}
		if rule == nil {
			return got, 0,
				fmt.Errorf("%q: no rule %q was simulated (there are %s)", c.text, c.rule,
					ruleNames(r))
		}
	}
	switch c.metric {
	case "denied":
		if rule != nil {
			return rule.Denied, r.Requests, nil
		}
		return r.Policy.Denied, r.Requests, nil
	case "clients":
		if rule != nil {
			return rule.KeysDenied, rule.Keys, nil
		}
		return r.Policy.Clients, r.Clients, nil
	case "wait":
		if rule != nil {
			return rule.WaitMillis, 0, nil
		}
		for i := range r.Policy.Rules {
			wait := r.Policy.Rules[i].WaitMillis
			got = Range{max(got.Low, wait.Low), max(got.High, wait.High)}
		}
		return got, 0, nil
	case "unread":
		n := r.Lines.Unread()
		return Range{n, n}, r.Lines.Lines, nil
	}
	if r.Moved == nil {
		return got, 0, fmt.Errorf("%q: needs --against, the policy to compare with", c.text)
	}
	if c.metric == "newly-denied" {
		return r.Moved.Denied, r.Requests, nil
	}
	return r.Moved.Allowed, r.Requests, nil
}

// Got returns the compared number as text.
func (c *Condition) Got(got Range, r *Report) string {
	one := func(n int64) string {
		switch {
		case c.metric == "wait":
			return (time.Duration(n) * time.Millisecond).String()
		case c.percent:
			_, of, _ := c.find(r)
			return strconv.FormatFloat(100*float64(n)/float64(max(1, of)), 'g', 3, 64) + "%"
		}
		return strconv.FormatInt(n, 10)
	}
	if low, high := one(got.Low), one(got.High); low != high {
		return low + " to " + high
	}
	return one(got.Low)
}
