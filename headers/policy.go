package headers

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// policy describes a rule to clients. It holds the texts that are the same in every answer.
type policy struct {
	name  string
	limit limits.Limit // zero: LimitFor returns it per request
	unit  core.Unit    // of the units, for the parameter qu of IETF
	allowance
	member string       // member of RateLimit-Policy; "" if it depends on the request
	quota  string       // start of its member of RateLimit
	scope  DiscordScope // value of X-RateLimit-Scope
}

// policiesOf returns the policies of rules, in the same order.
func policiesOf[R any](rules []core.Rule[R]) []policy {
	policies := make([]policy, len(rules))
	for i := range rules {
		policies[i] = policy{name: rules[i].Name, limit: rules[i].Limit, unit: rules[i].Unit}
	}
	return policies
}

// concurrent reports whether p describes a rule with a concurrency limit.
func (p *policy) concurrent() bool { return p.limit.Algorithm().Holds() }

// validatePolicies reports every mistake in policies, in the terms of their rules.
func validatePolicies(policies []policy) error {
	var errs []error
	seen := make(map[string]bool)
	for i := range policies {
		p := &policies[i]
		prefix := fmt.Sprintf("headers: rule %q: ", p.name)
		if p.name == "" || !isString(p.name) {
			errs = append(errs,
				fmt.Errorf("%sname: must be one or more characters of printable ASCII (got %q)",
					prefix, p.name))
		}
		if seen[p.name] {
			errs = append(errs,
				fmt.Errorf("%sname: must be unique (got %q more than once)", prefix, p.name))
		}
		seen[p.name] = true
		if err := p.validateUnit(); err != nil {
			errs = append(errs, fmt.Errorf("%sunit: %w", prefix, err))
		}
		if p.limit == (limits.Limit{}) {
			continue
		}
		if err := p.limit.Validate(); err != nil {
			for line := range strings.Lines(err.Error()) {
				errs = append(errs, errors.New(prefix+"limit: "+strings.TrimSuffix(line, "\n")))
			}
		}
	}
	return errors.Join(errs...)
}

// ownUnit returns the unit that the limit of p sets; Requests: none.
func (p *policy) ownUnit() core.Unit {
	switch a := p.limit.Algorithm(); {
	case a.Holds():
		return core.ConcurrentRequests
	case a.CountsValues():
		return core.DistinctValues
	}
	return core.Requests
}

func (p *policy) validateUnit() error {
	own := p.ownUnit()
	switch {
	case p.unit == own:
		return nil
	case p.concurrent() && p.unit != core.Requests:
		return fmt.Errorf("a concurrency limit counts concurrent requests: remove Unit (got %v)",
			p.unit)
	case own == core.DistinctValues && p.unit != core.Requests:
		return fmt.Errorf("a distinct limit counts values: remove Unit (got %v)", p.unit)
	case p.unit == core.ConcurrentRequests:
		return errors.New("only a concurrency limit counts concurrent requests: remove Unit or " +
			"use limits.Concurrent")
	case p.unit == core.DistinctValues:
		return errors.New("only a distinct limit counts values: remove Unit or " +
			"use limits.Distinct")
	case p.unit > core.DistinctValues:
		return fmt.Errorf("must be Requests, ContentBytes, Tokens, InputTokens, OutputTokens or "+
			"Money (got %d)", p.unit)
	}
	return nil
}

// allowance is a limit as clients see it: quota units in window seconds. The window of a
// concurrency limit is 0.
type allowance struct{ quota, window int64 }

// allowanceAt returns the allowance of l at an instant, in microseconds since the Unix epoch:
// calendar periods differ in length. At 0, for outcomes without a backend's clock, it returns the
// allowance of the longest period.
func allowanceAt(l limits.Limit, at int64) allowance {
	if start, end, ok := l.Window(time.UnixMicro(at)); ok && isCalendar(l) && at != 0 {
		return allowance{l.Burst(), int64(end.Sub(start) / time.Second)}
	}
	return allowanceOf(l)
}

func isCalendar(l limits.Limit) bool { return l.Period() != "" }

func allowanceOf(l limits.Limit) allowance {
	rate := l.Rate()
	if rate.Units == 0 {
		return allowance{quota: l.Burst()}
	}
	return allowance{
		quota: l.Burst(),
		window: max(1,
			ceilMulDiv(l.Burst(), rate.Period.Microseconds(), rate.Units*microsPerSecond)),
	}
}

// fixed reports whether d was decided by the limit of p, which may be nil. It was not if LimitFor
// returned the limit, or if a fallback applied a share of it.
func (p *policy) fixed(d *core.RuleDecision) bool {
	return p != nil && p.member != "" && p.limit == d.Limit()
}

// rules are the rules of a limiter as clients see them. They select the decisions that the fields
// show.
type rules struct {
	policies []policy
	show     Show
}

func newRules(options Options, policies []policy) *rules {
	r := &rules{policies: policies, show: options.Show}
	for i := range policies {
		p := &policies[i]
		if own := p.ownUnit(); own != core.Requests {
			p.unit = own
		}
		if p.limit != (limits.Limit{}) && !isCalendar(p.limit) {
			p.allowance = allowanceOf(p.limit)
		}
		p.scope = cmp.Or(options.DiscordScopes[p.name], discordUser)
	}
	return r
}

// policy returns the policy of d's rule, or nil if d comes from another limiter.
func (r *rules) policy(d *core.RuleDecision) *policy {
	if uint(d.Index()) >= uint(len(r.policies)) {
		return nil
	}
	if p := &r.policies[d.Index()]; p.name == d.Rule() {
		return p
	}
	return nil
}

// allowance returns the allowance that decided d.
func (r *rules) allowance(d *core.RuleDecision) allowance {
	if p := r.policy(d); p.fixed(d) {
		return p.allowance
	}
	return allowanceAt(d.Limit(), d.At)
}

// allFixed reports whether the fields show every rule of the limiter, and each was
// counted by its fixed limit.
func (r *rules) allFixed(o *core.Outcome) bool {
	if o.Len() != len(r.policies) {
		return false
	}
	for i := range o.Len() {
		d := o.At(i)
		if !r.shows(d) || !r.policy(d).fixed(d) {
			return false
		}
	}
	return true
}

// longestWindow returns the longest window among the rules that denied o.
func (r *rules) longestWindow(o *core.Outcome) time.Duration {
	longest := int64(0)
	for i := range o.Len() {
		if d := o.At(i); !d.Allowed && d.Mode() == core.Enforce {
			longest = max(longest, r.allowance(d).window)
		}
	}
	return time.Duration(min(longest, maxSeconds)) * time.Second
}

// shows reports whether the fields show d. They omit shadows and hidden rules, which clients must not
// see. With [OnDenial] they omit rules that allowed the request, since a denial must not publish the
// quotas of other rules.
func (r *rules) shows(d *core.RuleDecision) bool {
	return d.Mode() == core.Enforce && !d.Hidden() && d.Source.Counted() &&
		(r.show != OnDenial || !d.Allowed)
}

// binding returns the index of the binding decision among those that the fields show, in the order
// of [core.Outcome.BindingRule], or -1 if they show none.
func (r *rules) binding(o *core.Outcome) int {
	binding := -1
	for i := range o.Len() {
		if d := o.At(i); r.shows(d) && (binding < 0 || d.Binds(o.At(binding))) {
			binding = i
		}
	}
	return binding
}

// bindingOf returns the decision that binds among those with a unit that the fields show, or nil.
func (r *rules) bindingOf(unit core.Unit, o *core.Outcome) (binding *core.RuleDecision) {
	for i := range o.Len() {
		d := o.At(i)
		if d.Unit() == unit && r.shows(d) && (binding == nil || d.Binds(binding)) {
			binding = d
		}
	}
	return binding
}
