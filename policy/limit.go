package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// limit is the limit of a rule: one for all keys, or one for each plan.
type limit struct {
	at       *node
	fixed    limits.Limit
	by       word
	plans    []plan
	fallback limits.Limit // for keys without a plan, or with a plan that is not listed
}

type plan struct {
	word
	limit limits.Limit
}

var planObject = object[limit]{"planLimit", []field[limit]{
	{"by", true, func(d *decoder, n *node, l *limit) {
		text, _ := d.text(n)
		l.by = word{text, n}
	}},
	{"plans", true, func(d *decoder, n *node, l *limit) { l.readPlans(d, n) }},
	{"default", true, func(d *decoder, n *node, l *limit) { l.fallback = readLimit(d, n) }},
}}

// read reads the limit of a rule.
func (l *limit) read(d *decoder, n *node) {
	l.at = n
	if n.Kind != mapping {
		l.fixed = readLimit(d, n)
		return
	}
	readObject(d, &planObject, n, l)
	for _, p := range append(l.plans, plan{word{"default", n}, l.fallback}) {
		if p.limit.Algorithm().Holds() {
			d.mistake(p.at, "a concurrency limit cannot depend on the plan: write a rule "+
				"with a fixed limit")
		}
	}
}

// readPlans reads the plans and their limits.
func (l *limit) readPlans(d *decoder, n *node) {
	if n.Kind != mapping || len(n.Entries) == 0 {
		d.mistake(n, "must be a map of plans to limits, such as {free: 100/hour, pro: "+
			"10000/hour} (got %s)", n.Describe())
		return
	}
	seen := make(map[string]*node)
	for _, e := range n.Entries {
		name := e.Name.Text
		if e.Name.Kind != scalar || name == "" || e.Name.IsNull() || e.Name.IsNumberOrBoolean() {
			d.mistake(e.Name, "the name of a plan must be a text: write it in quotes (got %s)",
				e.Name.Describe())
			continue
		}
		d.in(name, func() {
			if other := seen[name]; other != nil {
				d.mistake(e.Name, "is here twice, also in line %d: remove one", other.Line)
				return
			}
			seen[name] = e.Name
			l.plans = append(l.plans, plan{word{name, e.Name}, readLimit(d, e.Value)})
		})
	}
}

// readLimit reads a limit such as 100/minute.
func readLimit(d *decoder, n *node) limits.Limit {
	if n.Kind != scalar || n.IsNull() {
		d.mistake(n, "must be a limit such as 100/minute (got %s)", n.Describe())
		return limits.Limit{}
	}
	l, err := limits.Parse(n.Text)
	if err != nil {
		why := strings.ReplaceAll(err.Error(), "\n", "; ")
		if _, after, ok := strings.Cut(why, `": `); ok && strings.HasPrefix(why, "limits: ") {
			why = after
		}
		if !strings.Contains(why, "(got ") {
			why += " (got " + quote(n.Text) + ")"
		}
		if strings.HasSuffix(why, "(got 0)") {
			why += ": for no limit write mode: disabled, to close a route a cost above its limit"
		}
		d.mistake(n, "%s", why)
	}
	return l
}

// check reports a function for plans that the file does not declare.
func (l *limit) check(d *decoder, declared *wordSet) {
	if l.by.text != "" {
		d.in("limit.by", func() { declared.check(d, l.by, "plans") })
	}
}

// describe returns the limit as text.
func (l *limit) describe() string {
	if l.by.text == "" {
		return l.fixed.String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "by %s: ", l.by.text)
	for _, p := range l.plans {
		fmt.Fprintf(&b, "%s %v, ", p.text, p.limit)
	}
	fmt.Fprintf(&b, "default %v", l.fallback)
	return b.String()
}

// buildLimit returns the function that finds the limit of a request by its plan. plans has the
// functions of the program.
func buildLimit[R any](
	l *limit, plans map[string]func(R) (string, error),
) func(R, string) (limits.Limit, error) {
	fixed, fallback := l.fixed, l.fallback
	if l.by.text == "" {
		return func(R, string) (limits.Limit, error) { return fixed, nil }
	}
	plan, byPlan := plans[l.by.text], make(map[string]limits.Limit, len(l.plans))
	for _, p := range l.plans {
		byPlan[p.text] = p.limit
	}
	return func(r R, _ string) (limits.Limit, error) {
		name, err := plan(r)
		if err != nil && !errors.Is(err, core.ErrAbsent) {
			return limits.Limit{}, err
		}
		if limit, ok := byPlan[name]; ok && err == nil {
			return limit, nil
		}
		return fallback, nil
	}
}
