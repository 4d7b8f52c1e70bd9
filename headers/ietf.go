package headers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// parameters are the names of the parameters of a draft. "" is a parameter that the draft lacks.
type parameters struct {
	quota, unit, window string // of RateLimit-Policy

	available, effective, partition string // of RateLimit
}

var (
	// draft11 has the names of draft -11, sections 3.1 and 4.1.
	draft11 = parameters{
		quota: "q", unit: "qu", window: "w",
		available: "r", effective: "t", partition: "pk",
	}

	// draft12 has the names of pull request 166 of the working group's repository, which also has
	// costParameter. No draft with them is published.
	draft12 = parameters{
		quota: "q", unit: "qu", window: "w",
		available: "a", effective: "w", partition: "pk",
	}

	// current is what IETF writes. It changes when a draft with other names is published.
	current = &draft11
)

// costParameter is the parameter of RateLimit for the units that the request takes: see
// [Options].CostParameter.
const costParameter = "c"

// appendName appends the start of a parameter, up to its value.
func appendName(text []byte, name string) []byte {
	return append(append(append(text, ';'), name...), '=')
}

func appendInteger(text []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(text, name), n, 10)
}

// ietf writes the fields of [IETF].
type ietf struct {
	rules        *rules
	names        *parameters
	burst, cost  string // names of parameters; "": none
	partitionKey func(string) []byte
	capPace      bool

	// members is RateLimit-Policy for an outcome in which every rule was counted by its fixed limit;
	// "" if a rule has no fixed limit. It saves 8 to 20% of an answer with three rules.
	members string
}

func newIETF(options Options, rules *rules, names *parameters) ietf {
	f := ietf{
		rules:        rules,
		names:        names,
		burst:        options.BurstParameter,
		cost:         options.CostParameter,
		partitionKey: options.PartitionKey,
		capPace:      options.CapPace,
	}
	for i := range rules.policies {
		p := &rules.policies[i]
		p.quota = string(f.beginQuota(nil, p.name))
		if p.limit != (limits.Limit{}) && !isCalendar(p.limit) {
			p.member = string(f.appendMember(nil, p.name, p.limit, p.allowance, p.unit))
		}
	}
	f.members = f.joinMembers()
	return f
}

// appendMember appends the member of RateLimit-Policy for a limit with the allowance a (draft -11,
// section 3). It omits the unit of requests, which is the default: the draft has two names for it.
// It omits a window of 0, since w is optional and must be positive (section 3.1.3).
func (f *ietf) appendMember(
	text []byte, name string, limit limits.Limit, a allowance, unit core.Unit,
) []byte {
	burst := f.burst != "" && limit.Algorithm().HasBurst()
	if burst {
		a = sustained(limit, a)
	}
	text = appendString(text, name)
	text = appendInteger(text, f.names.quota, a.quota)
	if unit != core.Requests {
		text = appendString(appendName(text, f.names.unit), unit.String())
	}
	if a.window != 0 {
		text = appendInteger(text, f.names.window, a.window)
	}
	if burst {
		text = appendInteger(text, f.burst, limit.Burst())
	}
	return text
}

// sustained returns the rate of a limit whose burst another parameter shows. A client may ignore
// that parameter. So sustained returns a, which has the burst, if the rate has more units than the
// burst, or if its period has a part of a second.
func sustained(limit limits.Limit, a allowance) allowance {
	rate := limit.Rate()
	if rate.Units > limit.Burst() || rate.Period%time.Second != 0 {
		return a
	}
	return allowance{rate.Units, int64(rate.Period / time.Second)}
}

// joinMembers returns RateLimit-Policy with all policies, or "" if a policy has no fixed limit.
func (f *ietf) joinMembers() string {
	var text []byte
	for i := range f.rules.policies {
		p := &f.rules.policies[i]
		if p.member == "" {
			return ""
		}
		text = append(separate(text, 0), p.member...)
	}
	return string(text)
}

// appendTo appends RateLimit and RateLimit-Policy, merged with the values that h has
// already. It also returns the largest t among the rules that did not allow the
// request.
func (f *ietf) appendTo(
	text []byte, v *values, h http.Header, o *core.Outcome, jitter time.Duration,
) (_ []byte, longest int64) {
	start := len(text)
	if outer := fieldRateLimit.in(h); outer != nil {
		text = appendList(text, outer, isQuote)
	}
	listed := 0
	allFixed := o.Len() == len(f.rules.policies)
	for i := range o.Len() {
		d := o.At(i)
		if !f.rules.shows(d) {
			allFixed = false
			continue
		}
		p := f.rules.policy(d)
		allFixed = allFixed && p.fixed(d)
		listed++
		t := int64(0)
		text, t = f.appendQuota(separate(text, start), p, d, jitter)
		if !d.Allowed {
			longest = max(longest, t)
		}
	}
	if listed == 0 {
		return text[:start], 0
	}
	v.add(fieldRateLimit, text)
	outer := fieldPolicy.in(h)
	if allFixed && outer == nil {
		v.addShared(fieldPolicy, text, f.members)
		return text, longest
	}
	return f.appendPolicies(text, v, outer, o, allFixed), longest
}

// beginQuota appends the start of the member of RateLimit for a rule.
func (f *ietf) beginQuota(text []byte, name string) []byte {
	return appendName(appendString(text, name), f.names.available)
}

// appendQuota appends the member of RateLimit for d (draft -11, section 4). p is the policy of d's
// rule, or nil if unknown. It also returns t, or 0 if the member has no t.
func (f *ietf) appendQuota(
	text []byte, p *policy, d *core.RuleDecision, jitter time.Duration,
) (_ []byte, t int64) {
	if p != nil {
		text = append(text, p.quota...)
	} else {
		text = f.beginQuota(text, d.Rule())
	}
	available := count(d.Remaining)
	text = strconv.AppendInt(text, available, 10)
	if d.EffectiveWindow != limits.Never {
		t = f.effective(d, available, jitter)
		text = appendInteger(text, f.names.effective, t)
	}
	if f.cost != "" {
		text = appendInteger(text, f.cost, count(d.Cost))
	}
	if f.partitionKey == nil || d.Key == "" {
		return text, t
	}
	if pk := f.partitionKey(d.Key); len(pk) > 0 {
		text = appendBytes(appendName(text, f.names.partition), pk)
	}
	return text, t
}

// effective returns t: the seconds over which the client should spread the available
// units (draft -11, section 4.1.2).
func (f *ietf) effective(d *core.RuleDecision, available int64, jitter time.Duration) int64 {
	wait := max(d.EffectiveWindow, 0)
	if f.capPace {
		a := f.rules.allowance(d)
		paced := ceilMulDiv(available, a.window, a.quota)
		wait = max(wait, time.Duration(min(paced, maxSeconds))*time.Second)
	}
	if !d.Allowed {
		wait = plus(wait, jitter)
	}
	return ceilSeconds(wait)
}

// maxSeconds is the longest wait, in seconds, that a time.Duration can hold.
const maxSeconds = int64((limits.Never - 1) / time.Second)

// appendPolicies appends RateLimit-Policy, merged with outer, the existing lines.
func (f *ietf) appendPolicies(
	text []byte, v *values, outer []string, o *core.Outcome, allFixed bool,
) []byte {
	start := len(text)
	text = appendList(text, outer, isQuote)
	if allFixed {
		return v.addString(fieldPolicy, separate(text, start), f.members)
	}
	for i := range o.Len() {
		d := o.At(i)
		if !f.rules.shows(d) {
			continue
		}
		text = separate(text, start)
		if known := f.rules.policy(d); known.fixed(d) {
			text = append(text, known.member...)
		} else {
			limit := d.Limit()
			text = f.appendMember(text, d.Rule(), limit, allowanceAt(limit, d.At), d.Unit())
		}
	}
	v.add(fieldPolicy, text)
	return text
}
