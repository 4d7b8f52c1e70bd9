package policy

import "time"

// Outline describes a policy file for tools that run without the program: the functions that the
// program must supply, the parts of a request that the rules read, and doubtful rules.
type Outline struct {
	Keys, Plans, Costs []string      // names under program, in the order of the file
	Rules              []RuleOutline // in the order of the file
	Warnings           []*Mistake    // valid, but perhaps not meant: see [ReadOutline]
}

// RuleOutline describes what one rule reads of a request.
type RuleOutline struct {
	Name    string
	Line    int      // line in the file, from 1
	Key     string   // such as "[address, header X-Tenant]" or "first [user, address]"
	Value   string   // what a distinct limit counts, in the words of Key; "": nothing
	Sources []string // sources of key and value, such as "address", "header X-Tenant" and "user"
	Plan    string   // name under program of the plan; "": none
	Cost    string   // name under program of the cost; "": none
	Address bool     // key, value or a list of except reads the client's address
	Agent   bool     // reads which agent has signed
	Route   bool     // reads the route of the framework
	Host    bool     // a pattern has a host
}

// ReadOutline reads a file without the functions of the program. Its error is that of [Check].
//
// The warnings are about: a key that a client can change freely, such as a header, unless another
// enforced rule counts the same requests by something else; addresses that clients choose; and
// overrides that have ended.
func ReadOutline(name string, text []byte) (*Outline, error) {
	f, err := readFile(name, text)
	if err != nil {
		return nil, err
	}
	o := &Outline{
		Keys: f.declared.keys.texts(), Plans: f.declared.plans.texts(),
		Costs: f.declared.costs.texts(),
	}
	for _, r := range f.rules {
		o.Rules = append(o.Rules, r.outline())
	}
	o.Warnings = f.warnings(time.Now())
	return o, nil
}
