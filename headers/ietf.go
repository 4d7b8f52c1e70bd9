package headers

import (
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// Parameter names of draft -11, in one place because a rename of r and t is pending (pull request
// 166 of the working group's repository).
const (
	paramQuota     = "q"  // RateLimit-Policy, section 3.1.1
	paramUnit      = "qu" // RateLimit-Policy, section 3.1.2
	paramWindow    = "w"  // RateLimit-Policy, section 3.1.3
	paramAvailable = "r"  // RateLimit, section 4.1.1
	paramEffective = "t"  // RateLimit, section 4.1.2
	paramPartition = "pk" // RateLimit, section 4.1.3
)

// appendMember appends a member of RateLimit-Policy (draft -11, section 3). It omits the unit of
// requests, which is the default: the draft has two names for it. It omits a window of 0, since w
// is optional and must be positive (section 3.1.3).
func appendMember(text []byte, name string, a allowance, unit core.Unit) []byte {
	text = appendString(text, name)
	text = append(text, ";"+paramQuota+"="...)
	text = strconv.AppendInt(text, a.quota, 10)
	if unit != core.Requests {
		text = append(text, ";"+paramUnit+"="...)
		text = appendString(text, unit.String())
	}
	if a.window == 0 {
		return text
	}
	text = append(text, ";"+paramWindow+"="...)
	return strconv.AppendInt(text, a.window, 10)
}

// joinMembers returns RateLimit-Policy with all policies, or "" if a policy has no fixed limit.
func (w *Writer) joinMembers() string {
	var text []byte
	for i := range w.policies {
		p := &w.policies[i]
		if p.member == "" {
			return ""
		}
		text = append(separate(text, 0), p.member...)
	}
	return string(text)
}

// appendIETF appends RateLimit and RateLimit-Policy, merged with the values that h has
// already. It also returns the largest t among the rules that did not allow the
// request.
func (w *Writer) appendIETF(
	text []byte, v *values, h http.Header, o *core.Outcome, jitter time.Duration,
) (_ []byte, longest int64) {
	start := len(text)
	if outer := fieldRateLimit.in(h); outer != nil {
		text = appendList(text, outer, isQuote)
	}
	listed := 0
	allFixed := o.Len() == len(w.policies)
	for i := range o.Len() {
		d := o.At(i)
		if !w.shows(d) {
			allFixed = false
			continue
		}
		p := w.policy(d)
		allFixed = allFixed && p.fixed(d)
		listed++
		t := int64(0)
		text, t = w.appendQuota(separate(text, start), p, d, jitter)
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
		v.addShared(fieldPolicy, text, w.members)
		return text, longest
	}
	return w.appendPolicies(text, v, outer, o, allFixed), longest
}

// beginQuota appends the start of the member of RateLimit for a rule.
func beginQuota(text []byte, name string) []byte {
	return append(appendString(text, name), ";"+paramAvailable+"="...)
}

// appendQuota appends the member of RateLimit for d (draft -11, section 4). p is the policy of d's
// rule, or nil if unknown. It also returns t, or 0 if the member has no t.
func (w *Writer) appendQuota(
	text []byte, p *policy, d *core.RuleDecision, jitter time.Duration,
) (_ []byte, t int64) {
	if p != nil {
		text = append(text, p.quota...)
	} else {
		text = beginQuota(text, d.Rule())
	}
	available := count(d.Remaining)
	text = strconv.AppendInt(text, available, 10)
	if d.EffectiveWindow != limits.Never {
		t = w.effective(d, available, jitter)
		text = append(text, ";"+paramEffective+"="...)
		text = strconv.AppendInt(text, t, 10)
	}
	if w.partitionKey == nil || d.Key == "" {
		return text, t
	}
	if pk := w.partitionKey(d.Key); len(pk) > 0 {
		text = append(text, ";"+paramPartition+"="...)
		text = appendBytes(text, pk)
	}
	return text, t
}

// effective returns t: the seconds over which the client should spread the available
// units (draft -11, section 4.1.2).
func (w *Writer) effective(d *core.RuleDecision, available int64, jitter time.Duration) int64 {
	wait := max(d.EffectiveWindow, 0)
	if w.capPace {
		a := w.allowance(d)
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
func (w *Writer) appendPolicies(
	text []byte, v *values, outer []string, o *core.Outcome, allFixed bool,
) []byte {
	start := len(text)
	text = appendList(text, outer, isQuote)
	if allFixed {
		return v.addString(fieldPolicy, separate(text, start), w.members)
	}
	for i := range o.Len() {
		d := o.At(i)
		if !w.shows(d) {
			continue
		}
		text = separate(text, start)
		if known := w.policy(d); known.fixed(d) {
			text = append(text, known.member...)
		} else {
			text = appendMember(text, d.Rule(), allowanceAt(d.Limit(), d.At), d.Unit())
		}
	}
	v.add(fieldPolicy, text)
	return text
}
