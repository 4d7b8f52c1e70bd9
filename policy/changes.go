package policy

import (
	"fmt"
	"strings"
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

// changes returns the differences between two files, in the order of f.
func changes(old, f *fileText) (list []Change) {
	add := func(rule, field, before, after string) {
		if before != after {
			list = append(list, Change{rule, field, before, after})
		}
	}
	add("", "domain", old.domain, f.domain)
	add("", "client", old.client.describe(), f.client.describe())
	agentsBefore, agentsNow := old.agents.changed(f.agents)
	add("", "agents", agentsBefore, agentsNow)
	add("", "paths", old.paths, f.paths)
	f.lists.changes(&old.lists, func(name, before, now string) {
		add("", "lists."+name, before, now)
	})
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
			if was.text == now[i].text && was.keys != now[i].keys {
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

// described is one field of a rule as text. keys holds what must not be shown: it has keys.
type described struct{ field, text, keys string }
