package policy

import (
	"slices"
	"time"
)

// Outline is what a policy file says to a tool that does not have the program: what the
// program has to supply, what the rules read of a request, and what is doubtful.
type Outline struct {
	Keys, Plans, Costs []string      // the names under program, in the order of the file
	Rules              []RuleOutline // in the order of the file
	Warnings           []*Mistake    // what is allowed, and perhaps not meant: see [ReadOutline]
}

// RuleOutline is what a rule reads of a request.
type RuleOutline struct {
	Name    string
	Line    int      // of the file, from 1
	Key     string   // such as "[address, header X-Tenant]" or "first [user, address]"
	Sources []string // what the key reads, such as "address", "header X-Tenant" and "user"
	Plan    string   // the name under program that finds the plan; "": none
	Cost    string   // the name under program that finds the cost; "": none
	Address bool     // the rule reads the address of clients, for its key or a list of except
	Route   bool     // the rule reads the route of the framework
	Host    bool     // a pattern of the rule has a host
}

// ReadOutline reads a file as far as that needs no program. Its error is that of [Check].
//
// It warns of a key that a client is free to change, such as a header, if no other rule
// that is enforced for the same requests counts by something else; of addresses that
// clients choose; and of overrides that have ended.
func ReadOutline(name string, text []byte) (*Outline, error) {
	f, err := readFile(name, text)
	if err != nil {
		return nil, err
	}
	o := &Outline{Keys: f.declared.keys.texts(), Plans: f.declared.plans.texts(), Costs: f.declared.costs.texts()}
	for _, r := range f.rules {
		o.Rules = append(o.Rules, r.outline())
	}
	o.Warnings = f.warnings(time.Now())
	return o, nil
}

func (r *rule) outline() RuleOutline {
	o := RuleOutline{Name: r.name, Line: r.at.line, Key: r.key.text, Plan: r.limit.by.text, Cost: r.cost.name, Route: r.needsRoute() != nil}
	r.key.sourcesOf(func(k *key) {
		if !slices.Contains(o.Sources, k.text) {
			o.Sources = append(o.Sources, k.text)
		}
	})
	o.Address = slices.Contains(o.Sources, "address") || slices.ContainsFunc(r.except, func(c condition) bool { return c.list != "" })
	o.Host = slices.ContainsFunc(r.conditionsOf(), func(c condition) bool { return c.pattern != nil && c.pattern.host != "" })
	return o
}

func (s *wordSet) texts() (texts []string) {
	for _, w := range s.words {
		texts = append(texts, w.text)
	}
	return texts
}
