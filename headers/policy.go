package headers

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-go/weir/core"
)

// Policy is what a rule looks like to clients.
type Policy struct {
	// Name is the rule's name: printable ASCII, stable, nothing secret.
	Name string
	// Limit is the rule's limit. Zero: it is found per request (LimitFor).
	Limit core.Limit
	// Unit is what the rule counts. IETF publishes it as the parameter qu, unless
	// it is [core.Requests].
	Unit core.Unit
}

// Policies returns the policies of rules, in their order.
func Policies[R any](rules []core.Rule[R]) []Policy {
	policies := make([]Policy, len(rules))
	for i := range rules {
		policies[i] = Policy{rules[i].Name, rules[i].Limit, rules[i].Unit}
	}
	return policies
}

// validatePolicies reports every mistake in policies.
func validatePolicies(policies []Policy) error {
	var errs []error
	seen := make(map[string]bool)
	for _, p := range policies {
		prefix := fmt.Sprintf("headers: policy %q: ", p.Name)
		if p.Name == "" || !isString(p.Name) {
			errs = append(errs, fmt.Errorf("%sname: must be one or more characters of printable ASCII (got %q)", prefix, p.Name))
		}
		if seen[p.Name] {
			errs = append(errs, fmt.Errorf("%sname: must be unique (got %q more than once)", prefix, p.Name))
		}
		seen[p.Name] = true
		if p.Unit > core.ContentBytes {
			errs = append(errs, fmt.Errorf("%sunit: must be Requests or ContentBytes (got %d)", prefix, p.Unit))
		}
		if p.Limit == (core.Limit{}) {
			continue
		}
		if err := p.Limit.Validate(); err != nil {
			for line := range strings.Lines(err.Error()) {
				errs = append(errs, errors.New(prefix+"limit: "+strings.TrimSuffix(line, "\n")))
			}
		}
	}
	return errors.Join(errs...)
}

// terms are what a limit promises in whole units and seconds.
type terms struct{ quota, window int64 }

func termsOf(l core.Limit) terms {
	rate := l.Rate()
	return terms{
		quota:  l.Burst(),
		window: max(1, ceilMulDiv(l.Burst(), rate.Period.Microseconds(), rate.Units*microsPerSecond)),
	}
}

// policy is a [Policy] and the text that is the same in every answer.
type policy struct {
	Policy
	terms
	member string // of RateLimit-Policy; "" if the limit is found per request
	prefix string // of the member of RateLimit, up to the number of units
	scope  string // of X-RateLimit-Scope
}

func compile(p Policy) policy {
	c := policy{
		Policy: p,
		prefix: string(appendPrefix(nil, p.Name)),
		scope:  scopeUser,
	}
	if p.Limit != (core.Limit{}) {
		c.terms = termsOf(p.Limit)
		c.member = string(appendMember(nil, p.Name, c.terms, p.Unit))
	}
	return c
}

// policy returns the policy of d's rule, nil if d is of another limiter.
func (w *Writer) policy(d *core.RuleDecision) *policy {
	if uint(d.Index) >= uint(len(w.policies)) {
		return nil
	}
	if p := &w.policies[d.Index]; p.Name == d.Rule {
		return p
	}
	return nil
}

// fixed reports whether p, which may be nil, says what d was held to. It does
// not if the limit was found per request or is a fallback's share.
func (p *policy) fixed(d *core.RuleDecision) bool {
	return p != nil && p.member != "" && p.Limit == d.Limit
}

// terms returns the terms that d was held to.
func (w *Writer) terms(d *core.RuleDecision) terms {
	if p := w.policy(d); p.fixed(d) {
		return p.terms
	}
	return termsOf(d.Limit)
}
