// Package convert writes policy files from the limits of nginx and ingress-nginx.
//
// A file means exactly what nginx did: its rates in thousandths of a request a second, its bursts,
// its zones, and the locations in which they count. What a policy cannot say is a mistake with its
// place, and nothing is guessed. Where weir differs on purpose, that is a warning.
package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-go/weir/cmd/weir/internal/nginxconf"
	"github.com/weir-go/weir/policy"
)

// Place is a place in a file of nginx or of Kubernetes.
type Place = nginxconf.Place

// Finding is what a reader has to know of the conversion.
type Finding struct {
	Place
	Warning bool // the policy differs on purpose; otherwise it lacks something
	Text    string
}

// Result is a policy that was converted.
type Result struct {
	Policy   []byte // nil: nothing could be kept
	Rules    int
	Findings []Finding // in the order of their places
	Denials  []int     // the statuses by which nginx denies
}

// findings collects findings.
type findings struct {
	all  []Finding
	seen map[Finding]bool
}

func (f *findings) mistake(at Place, format string, args ...any) {
	f.add(Finding{at, false, fmt.Sprintf(format, args...)})
}

func (f *findings) warn(at Place, format string, args ...any) {
	f.add(Finding{at, true, fmt.Sprintf(format, args...)})
}

// add adds a finding unless it is there.
func (f *findings) add(one Finding) {
	if f.seen[one] {
		return
	}
	if f.seen == nil {
		f.seen = make(map[Finding]bool)
	}
	f.seen[one] = true
	f.all = append(f.all, one)
}

// finish writes the policy of p, with lists of addresses.
func finish(p *proxy, lists []*list) *Result {
	w := &writer{proxy: p, lists: lists}
	rules := ruler{p}.rules()
	r := &Result{Rules: len(rules), Denials: p.statuses}
	if len(rules) > 0 {
		r.Policy = w.write(rules)
		for _, m := range policy.Mistakes(policy.Check("policy", r.Policy)) {
			at := p.first()
			if strings.HasPrefix(m.Field, "client") {
				at = p.clientAt
			}
			for _, one := range rules {
				if one.name == m.Rule {
					at = one.at
				}
			}
			p.mistake(at, "a policy cannot say this: %s", m.Text)
			r.Policy = nil
		}
	}
	slices.SortStableFunc(p.all, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column))
	})
	r.Findings = p.all
	return r
}
