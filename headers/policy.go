package headers

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Policy describes a rule to clients.
type Policy struct {
	// Name is the name of the rule: printable ASCII, stable, and nothing secret.
	Name string
	// Limit is the limit of the rule. Zero: LimitFor returns it per request.
	Limit limits.Limit
	// Unit is what the rule counts. IETF publishes it as the parameter qu, unless it is
	// [core.Requests]. With a concurrency limit it may be zero, and is
	// [core.ConcurrentRequests] all the same.
	Unit core.Unit
}

// Policies returns the policies of rules, in the same order.
func Policies[R any](rules []core.Rule[R]) []Policy {
	policies := make([]Policy, len(rules))
	for i := range rules {
		policies[i] = Policy{rules[i].Name, rules[i].Limit, rules[i].Unit}
		policies[i].Unit = policies[i].unit()
	}
	return policies
}

// concurrent reports whether p describes a rule with a concurrency limit.
func (p *Policy) concurrent() bool { return p.Limit.Algorithm() == limits.AlgorithmConcurrent }

// unit returns the unit to publish. A concurrency limit sets it.
func (p *Policy) unit() core.Unit {
	if p.concurrent() && p.Unit == core.Requests {
		return core.ConcurrentRequests
	}
	return p.Unit
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
		if err := p.validateUnit(); err != nil {
			errs = append(errs, fmt.Errorf("%sunit: %w", prefix, err))
		}
		if p.Limit == (limits.Limit{}) {
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

func (p *Policy) validateUnit() error {
	switch {
	case p.concurrent() && p.unit() != core.ConcurrentRequests:
		return fmt.Errorf("a concurrency limit counts concurrent requests: remove Unit (got %v)", p.Unit)
	case p.Unit == core.ConcurrentRequests && !p.concurrent():
		return errors.New("only a concurrency limit counts concurrent requests: remove Unit or use limits.Concurrent")
	case p.Unit > core.ConcurrentRequests:
		return fmt.Errorf("must be Requests or ContentBytes (got %d)", p.Unit)
	}
	return nil
}

// allowance is a limit as clients see it: quota units in window seconds. A concurrency
// limit has no window, which is 0 then.
type allowance struct{ quota, window int64 }

// allowanceAt returns the allowance of l at an instant, in microseconds since the Unix epoch: periods of the
// calendar differ in length. At 0, of decisions that nobody made, it is that of the longest.
func allowanceAt(l limits.Limit, at int64) allowance {
	if start, end, ok := l.Window(time.UnixMicro(at)); ok && isCalendar(l) && at != 0 {
		return allowance{l.Burst(), int64(end.Sub(start) / time.Second)}
	}
	return allowanceOf(l)
}

func isCalendar(l limits.Limit) bool { return l.Algorithm() == limits.AlgorithmCalendar }

func allowanceOf(l limits.Limit) allowance {
	rate := l.Rate()
	if rate.Units == 0 {
		return allowance{quota: l.Burst()}
	}
	return allowance{
		quota:  l.Burst(),
		window: max(1, ceilMulDiv(l.Burst(), rate.Period.Microseconds(), rate.Units*microsPerSecond)),
	}
}

// policy is a [Policy] with the text that is the same in every answer.
type policy struct {
	Policy
	allowance
	member string // in RateLimit-Policy; "" if it is not the same for every request
	quota  string // the beginning of its member in RateLimit
	scope  string // the value of X-RateLimit-Scope
	hidden bool   // by Options.Hidden
}

func compile(p Policy) policy {
	c := policy{
		Policy: p,
		scope:  scopeUser,
		quota:  string(beginQuota(nil, p.Name)),
	}
	if p.Limit != (limits.Limit{}) && !isCalendar(p.Limit) {
		c.allowance = allowanceOf(p.Limit)
		c.member = string(appendMember(nil, p.Name, c.allowance, p.unit()))
	}
	return c
}

// policy returns the policy of d's rule, nil if d comes from another limiter.
func (w *Writer) policy(d *core.RuleDecision) *policy {
	if uint(d.Index()) >= uint(len(w.policies)) {
		return nil
	}
	if p := &w.policies[d.Index()]; p.Name == d.Rule() {
		return p
	}
	return nil
}

// fixed reports whether d was decided by the limit of p, which may be nil. It was not
// if LimitFor returned the limit, or if d is by a fallback that applies a share of it.
func (p *policy) fixed(d *core.RuleDecision) bool {
	return p != nil && p.member != "" && p.Limit == d.Limit()
}

// allowance returns the allowance by which d was decided.
func (w *Writer) allowance(d *core.RuleDecision) allowance {
	if p := w.policy(d); p.fixed(d) {
		return p.allowance
	}
	return allowanceAt(d.Limit(), d.At)
}
