package admin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/operator"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

// viewRules returns the rules of a limiter, those in force first. If limiter is nil, it is not in
// Sources, and viewRules returns only what stats knows.
func viewRules(
	name string, limiter Limiter, rules []stats.RuleSnapshot,
) (views []operator.Rule) {
	counted := make(map[string]*stats.RuleSnapshot, len(rules))
	for i := range rules {
		counted[rules[i].Name] = &rules[i]
	}
	if limiter != nil {
		for _, r := range limiter.State().Rules {
			v := viewRule(name, &r)
			addCounts(&v, counted[r.Name])
			delete(counted, r.Name)
			views = append(views, v)
		}
	}
	for i := range rules {
		r := &rules[i]
		if counted[r.Name] == nil {
			continue
		}
		v := operator.Rule{Limiter: name, Name: r.Name, Scope: r.Scope}
		if limiter == nil && r.InForce {
			v = viewRule(name, &core.RuleState{
				Name: r.Name, Scope: r.Scope, Limit: r.Limit, Mode: r.Mode, Local: r.Local,
				DenyAs503: r.DenyAs503, Hidden: r.Hidden, Override: r.Override, GivenLimit: r.Limit,
				GivenMode: r.Mode,
			})
			v.Ours = false
		}
		addCounts(&v, r)
		views = append(views, v)
	}
	return views
}

func viewRule(limiter string, r *core.RuleState) operator.Rule {
	v := operator.Rule{
		Limiter: limiter, Name: r.Name, Scope: r.Scope, KeyName: r.KeyName, InForce: true,
		Ours:  true,
		Limit: limitText(r.Limit), Mode: r.Mode.String(), GivenLimit: limitText(r.GivenLimit),
		GivenMode: r.GivenMode.String(),
		Percent:   r.Mode.Percent(), Local: r.Local, Capacity: r.DenyAs503, Hidden: r.Hidden,
		Concurrent: r.Limit.Algorithm().Holds(),
	}
	if !r.Override.Until.IsZero() {
		v.Until, v.Why = r.Override.Until.UnixMilli(), r.Override.Why
	}
	v.YAML = difference(r)
	return v
}

// limitText returns the text of a limit, "" for the zero Limit.
func limitText(l limits.Limit) string {
	if l == (limits.Limit{}) {
		return ""
	}
	return l.String()
}

// addCounts adds to v what stats has counted. r is nil if it has counted nothing.
func addCounts(v *operator.Rule, r *stats.RuleSnapshot) {
	v.Sources = make(map[string]int64)
	if r == nil {
		return
	}
	v.Allowed, v.Denied, v.WouldDeny = decided(r)
	for _, d := range r.Decisions {
		if d.Count > 0 {
			v.Sources[d.Source.String()] += d.Count
		}
	}
	v.Binding, v.NearLimit, v.Units = r.Binding, r.NearLimit, r.Units
	v.Lost, v.Dropped = r.Settlements.Lost, r.Settlements.Dropped
}

// decided returns how many requests a rule decided.
func decided(r *stats.RuleSnapshot) (allowed, denied, wouldDeny int64) {
	for _, d := range r.Decisions {
		switch {
		case d.Allowed:
			allowed += d.Count
		case d.Mode == core.Shadow:
			wouldDeny += d.Count
		default:
			denied += d.Count
		}
	}
	return allowed, denied, wouldDeny
}

// plain matches rule names that YAML reads as text without quotes.
var plain = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)+$|^[a-z]{4,}[0-9]*$`)

// difference returns the lines of a policy file that make an override permanent; "" if there are
// none.
func difference(r *core.RuleState) string {
	limit, mode := r.Limit != r.GivenLimit, r.Mode != r.GivenMode
	if !limit && !mode {
		return ""
	}
	name := r.Name
	if !plain.MatchString(name) || name == "true" || name == "false" || name == "null" {
		quoted, _ := json.Marshal(name) // JSON in ASCII is a double-quoted scalar of YAML, too
		name = string(quoted)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  - name: %s\n", name)
	if limit {
		fmt.Fprintf(&b, "    limit: %v # was %v\n", r.Limit, r.GivenLimit)
	}
	if mode {
		fmt.Fprintf(&b, "    mode: %v # was %v\n", r.Mode, r.GivenMode)
	}
	return b.String()
}
