package simulate

import (
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Limit is a rule of [Limits].
type Limit struct {
	Name    string
	Limit   limits.Limit
	NoDelay int64 // as in core.Rule
}

// Limits returns a policy of rules that are decided together and count by the address in the log,
// like a policy file with key: address.
func Limits(name string, rules []Limit) *Policy {
	p := &Policy{name: name}
	built := make([]core.Rule[*request], len(rules))
	for i, r := range rules {
		p.reads = append(p.reads, ruleReads{name: r.Name})
		built[i] = core.Rule[*request]{
			Name: r.Name, Limit: r.Limit, NoDelay: r.NoDelay,
			Key: func(r *request) (string, error) { return string(r.appendClient(nil)), nil },
		}
	}
	p.parse = func(*Known) (*parsed, error) {
		return &parsed{built, func(time.Time) []string { return nil }}, nil
	}
	return p
}
