package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weir-go/weir/cmd/weir/internal/visible"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/operator"
)

// explanation is the decision on a request, with reasons.
type explanation struct {
	Request string            `json:"request"`
	Verdict verdict           `json:"verdict"`
	Rules   []ruleExplanation `json:"rules"`
	Notes   []string          `json:"notes,omitempty"`
	page    bool              // has remaining quotas from a page
}

// verdict is the verdict on the request.
type verdict string

const (
	allowed     verdict = "allowed"
	denied      verdict = "denied"
	unavailable verdict = "unavailable"
)

// ruleExplanation is the decision of one rule.
type ruleExplanation struct {
	Rule    string `json:"rule"`
	Mode    string `json:"mode"` // enforce or shadow for this key; disabled
	Applies bool   `json:"applies"`
	Why     string `json:"why,omitempty"` // why it does not apply, or fails
	*ruleCharge
	Notes []string `json:"notes,omitempty"`
}

// ruleCharge is the charge of a request by one rule.
type ruleCharge struct {
	Key     string `json:"key"` // in readable form
	Limit   string `json:"limit"`
	Cost    int64  `json:"cost"`
	Left    *int64 `json:"left,omitempty"` // nil: unknown
	Allowed bool   `json:"allowed"`
	Retry   int64  `json:"retryAfterMicros,omitempty"` // −1: no wait helps
}

// judge computes the verdict from the rules.
func (e *explanation) judge() {
	e.Verdict = allowed
	for i := range e.Rules {
		r := &e.Rules[i]
		switch {
		case !r.denies():
		case r.Why != "":
			e.Verdict = unavailable
		case e.Verdict == allowed:
			e.Verdict = denied
		}
	}
}

func (e *explanation) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return visible.JSON(out, e)
	}
	met := [][]string{{"RULE", "LIMIT", "KEY", "COST", "LEFT", ""}}
	others := [][]string{{"RULE", "WHY NOT"}}
	for i := range e.Rules {
		if r := &e.Rules[i]; r.Why == "" {
			met = append(met, r.cells())
		} else {
			others = append(others, []string{r.Rule, r.Why})
		}
	}
	if !e.page {
		for i, row := range met {
			met[i] = append(row[:4:4], row[5])
		}
	}
	var b strings.Builder
	b.WriteString(visible.Text(e.Request) + "\n" + e.summary() + "\n")
	for _, rows := range [][][]string{met, others} {
		if len(rows) > 1 {
			b.WriteString("\n" + table(rows))
		}
	}
	if len(e.Notes) > 0 {
		b.WriteString("\n" + visible.Text(strings.Join(e.Notes, "\n")) + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// cells returns the row of a rule that applies.
func (r *ruleExplanation) cells() []string {
	left := "?"
	if r.Left != nil {
		left = fmt.Sprint(*r.Left)
	}
	notes := r.Notes
	if r.Retry > 0 {
		notes = append([]string{"allowed again in " + wait(r.Retry)}, notes...)
	}
	return []string{
		r.Rule, r.Limit, cmp.Or(r.Key, noKey), fmt.Sprint(r.Cost), left, strings.Join(notes, "; "),
	}
}

// wait returns microseconds for people, rounded up to a sensible precision.
func wait(micros int64) string {
	d, unit := time.Duration(micros)*time.Microsecond, time.Millisecond
	if d >= 10*time.Second {
		unit = time.Second
	}
	return ((d + unit - 1) / unit * unit).String()
}

// summary returns the verdict in one line.
func (e *explanation) summary() string {
	met, by, unknown := 0, "", false
	for i := range e.Rules {
		r := &e.Rules[i]
		if r.Applies {
			met++
			unknown = unknown || r.ruleCharge == nil || r.Left == nil
		}
		if r.denies() {
			by += ", " + r.Rule
		}
	}
	by = strings.TrimPrefix(by, ", ")
	text := fmt.Sprintf("%d of %s apply. ", met, count(len(e.Rules), "rule"))
	switch met {
	case 0:
		return "No rule applies. The request is allowed."
	case 1:
		text = strings.Replace(text, "apply", "applies", 1)
	}
	switch {
	case e.Verdict == unavailable:
		return text + "The request cannot be decided: " + cmp.Or(by, "see below") + "."
	case e.Verdict == allowed && e.page && unknown:
		return text + "The request would be allowed now by the rules of which the page knows " +
			"what is left."
	case e.Verdict == allowed && e.page:
		return text + "The request would be allowed now."
	case e.Verdict == allowed:
		return text + "A first request is allowed."
	case e.page:
		return text + "The request would be denied now, by " + visible.Text(by) + "."
	}
	return text + "The request is always denied, by " + visible.Text(by) + "."
}

// denies reports whether the rule denies the request or fails.
func (r *ruleExplanation) denies() bool {
	return r.Applies && (r.ruleCharge == nil || !r.Allowed) && r.Mode == core.Enforce.String()
}

// left adds the remaining quota from the page.
func (r *ruleExplanation) left(v *operator.Verdict) {
	if !v.Counted {
		return
	}
	r.Left, r.Retry = &v.Remaining, v.RetryAfter
	if v.RetryAfter < 0 {
		r.Notes = append(r.Notes, "costs more than the limit ever allows: always denied")
	}
}

// compare adds the page's data on the key of a.
func (r *ruleExplanation) compare(a *answer, v *operator.Verdict) {
	if !v.Matches {
		r.Notes = append(r.Notes, "the running program: "+v.Why)
		return
	}
	if v.Why != "" {
		r.Notes = append(r.Notes, v.Why)
	}
	if v.Limit != r.Limit {
		r.Notes = append(r.Notes, "the running program has "+v.Limit)
	}
	if v.Mode != a.rule.Mode.String() {
		r.Notes = append(r.Notes, "the running program has mode "+v.Mode)
		if v.Mode == core.Enforce.String() || v.Mode == core.Shadow.String() {
			r.Mode = v.Mode
		}
	}
	switch {
	case v.Hidden && !a.rule.Hidden:
		r.Notes = append(r.Notes, "the running program hides it from clients")
	case a.rule.Hidden && !v.Hidden:
		r.Notes = append(r.Notes, "the running program tells clients of it")
	}
	r.left(v)
	if v.Counted { // the page's numbers are for one unit
		r.Allowed = r.Allowed && v.Allowed && v.Remaining >= r.Cost
		if v.Allowed && !r.Allowed {
			r.Notes = append(r.Notes, "less is left than it costs")
		}
	}
}
