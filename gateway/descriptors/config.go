package descriptors

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Config is the limits of some files. It does not change. Make one with [Load], [Parse] or
// [ParseDocuments].
type Config struct {
	domains map[string]*domain
	awaited bool
}

// Awaited returns the Config of a service whose limits have not come yet. Until [Service.Replace]
// puts others into force, each decision is [ErrUnavailable].
func Awaited() *Config { return &Config{awaited: true} }

// Domains returns the names of the domains, sorted.
func (c *Config) Domains() []string {
	var names []string
	for name := range c.domains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Explanation is what a file has for a descriptor.
type Explanation struct {
	Rule          string   // such as "tenant_acme.path"
	Limits        []string // such as "100/minute" or "100/5 minutes"; nil: unlimited
	Shadow, Quota bool
	Together      []string // values of the file under which others count together with the descriptor
}

// Explain returns what the limits of a domain have for a descriptor with these entries.
// ok is false if there is no limit for it.
func (c *Config) Explain(domain string, entries []Entry) (e Explanation, ok bool) {
	d := c.domains[domain]
	if d == nil {
		return e, false
	}
	entries, _, _ = d.withoutHolder(entries)
	n, _ := d.match(nil, entries, false)
	if n == nil || n.rule == nil {
		return e, false
	}
	e = Explanation{Rule: n.rule.path, Shadow: n.rule.shadow, Quota: n.rule.quota}
	for _, l := range n.rule.limits {
		text := l.limit.String()
		if l.isByUnit() {
			text = fmt.Sprintf("%d/%v", l.shown.RequestsPerUnit, l.shown.Unit)
			if n := l.shown.Multiplier; n > 1 {
				text = fmt.Sprintf("%d/%d %vs", l.shown.RequestsPerUnit, n, l.shown.Unit)
			}
		}
		if p := n.rule.price; p != nil {
			text += fmt.Sprintf(" of the budget %s, a hit costs %v", n.rule.name, p)
		}
		switch {
		case l.holder != "":
			text += fmt.Sprintf(", each held by its %s for %s at most", l.holder, short(l.lends))
		case l.lends > 0:
			text += fmt.Sprintf(", each held for %s at most", short(l.lends))
		}
		e.Limits = append(e.Limits, text)
	}
	l := &d.level
	for _, entry := range entries {
		n := l.find(entry)
		if n.shares {
			e.Together = append(e.Together, entry.Key+"="+n.value)
		}
		l = &n.level
	}
	return e, true
}

// short returns d as a file has it: 10m and not 10m0s.
func short(d time.Duration) string {
	text := d.String()
	for _, none := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, none) {
			text = text[:len(text)-2]
		}
	}
	return text
}
