package policy

import (
	"fmt"
	"strings"
	"time"
)

// Change is one difference between two policies, for logs and pages. Its texts contain no key.
type Change struct {
	Rule     string // "": outside of rules
	Field    string // "": the whole rule
	Old, New string // "": none
}

// String returns the change as one line, such as rule "api": limit: 100/minute → 200/minute.
func (c Change) String() string {
	var b strings.Builder
	if c.Rule != "" {
		fmt.Fprintf(&b, "rule %q: ", c.Rule)
	}
	if c.Field != "" {
		b.WriteString(c.Field + ": ")
	}
	switch {
	case c.Old == "":
		return b.String() + "added: " + c.New
	case c.New == "":
		return b.String() + "removed: " + c.Old
	}
	return b.String() + c.Old + " → " + c.New
}

// Changes returns the differences between old and p, in the order of the file. Comments and names
// under program do not count. If old is nil, every rule is new.
func (p *Policy[R]) Changes(old *Policy[R]) []Change {
	if old == nil {
		return changes(&fileText{}, p.file)
	}
	return changes(old.file, p.file)
}

func changes(old, f *fileText) (list []Change) {
	add := func(rule, field, before, after string) {
		if before != after {
			list = append(list, Change{rule, field, before, after})
		}
	}
	add("", "domain", old.domain, f.domain)
	add("", "client", old.client.describe(), f.client.describe())
	add("", "paths", old.paths, f.paths)
	for _, l := range old.lists {
		if f.listOf[l.text] == nil {
			add("", "lists."+l.text, l.describe(), "")
		}
	}
	for _, l := range f.lists {
		before := ""
		if other := old.listOf[l.text]; other != nil {
			before = other.describe()
			if before == l.describe() && !sameRanges(other, l) {
				before += " of before"
			}
		}
		add("", "lists."+l.text, before, l.describe())
	}
	now := f.shed.describe()
	for i, was := range old.shed.describe() {
		add("", was.field, was.text, now[i].text)
	}
	before := make(map[string]*rule)
	for _, r := range old.rules {
		before[r.name] = r
	}
	for _, r := range f.rules {
		other := before[r.name]
		if other == nil {
			add(r.name, "", "", r.limit.describe())
			continue
		}
		delete(before, r.name)
		now := r.describe()
		for i, was := range other.describe() {
			shown := was.text
			if was.text == now[i].text && was.hidden != now[i].hidden {
				shown += ", other keys"
			}
			add(r.name, was.field, shown, now[i].text)
		}
	}
	for _, r := range old.rules {
		if before[r.name] != nil {
			add(r.name, "", r.limit.describe(), "")
		}
	}
	return list
}

// described is one field of a rule as text. hidden holds what must not be shown because it is a
// key.
type described struct{ field, text, hidden string }

// describe returns all fields of r except its name, in a fixed order.
func (r *rule) describe() []described {
	overrides, keys := r.describeOverrides()
	value := "none"
	if r.value != nil {
		value = r.value.text
	}
	return []described{
		{"scope", r.scope.text, ""},
		{"match", describeConditions(r.match), ""},
		{"except", describeConditions(r.except), ""},
		{"key", r.key.text, ""},
		{"value", value, ""},
		{"limit", r.limit.describe(), ""},
		{"overrides", overrides, keys},
		{"cost", r.cost.describe(), ""},
		{"final-cost", r.final.describe(), ""},
		{"unit", r.unit.String(), ""},
		{"on-failure", failureWords[r.onFailure], ""},
		{"mode", r.mode.String(), ""},
		{"no-delay", fmt.Sprint(r.noDelay), ""},
		{"local", fmt.Sprint(r.local), ""},
		{"deny-as-503", fmt.Sprint(r.denyAs503), ""},
	}
}

func (r *rule) describeOverrides() (text, keys string) {
	texts := make([]string, len(r.overrides))
	var of strings.Builder
	for i, o := range r.overrides {
		texts[i] = o.limit.String()
		if !o.until.IsZero() {
			texts[i] += " until " + o.until.Format(time.DateOnly)
		}
		if o.why != "" {
			texts[i] += " (" + o.why + ")"
		}
		fmt.Fprintf(&of, "%q", o.key)
	}
	return strings.Join(texts, "; "), of.String()
}

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

func (c *client) describe() string {
	if c == nil {
		return ""
	}
	if c.ipv6 != 64 {
		return fmt.Sprintf("%s, ipv6-prefix %d", c.text, c.ipv6)
	}
	return c.text
}

func (l *addressList) describe() string {
	if len(l.ranges) == 1 {
		return "1 range"
	}
	return fmt.Sprintf("%d ranges", len(l.ranges))
}

func sameRanges(a, b *addressList) bool {
	return strings.Join(a.ranges, " ") == strings.Join(b.ranges, " ")
}
