package headers

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
)

// appendDrafts appends the fields of Draft6 and Draft7 for d, the binding decision. retry is the
// value of Retry-After, or 0 without one.
func (w *Writer) appendDrafts(
	text []byte, v *values, h http.Header, o *core.Outcome, d *core.RuleDecision, retry int64,
) []byte {
	limit, remaining := w.allowance(d).quota, count(d.Remaining)
	// Draft -07, section 4: reset should equal Retry-After.
	reset := retry
	if retry == 0 {
		reset = ceilSeconds(w.untilLeft(d, 0))
	}
	ours := standing{!d.Allowed, remaining, reset * microsPerSecond}
	if w.has(Draft6) && ours.binds(first(fieldRemaining.in(h)), first(fieldReset.in(h))) {
		text = v.addInteger(fieldLimit, text, limit)
		text = v.addInteger(fieldRemaining, text, remaining)
		text = v.addInteger(fieldReset, text, reset)
	}
	if outer := fieldRateLimit.in(h); w.has(Draft7) &&
		ours.binds(entry(outer, "remaining="), entry(outer, "reset=")) {
		text = append(text, "limit="...)
		text = strconv.AppendInt(text, limit, 10)
		text = append(text, ", remaining="...)
		text = strconv.AppendInt(text, remaining, 10)
		text = append(text, ", reset="...)
		text = v.addInteger(fieldRateLimit, text, reset)
	}
	if w.has(IETF) {
		return text
	}
	return w.appendIntegerPolicies(text, v, h, o)
}

// appendIntegerPolicies appends RateLimit-Policy of drafts -04 to -07, merged with the lines that h
// has already. No quota may appear twice (draft -07, section 3.5). A quota that is listed there
// stays. Of our own policies with equal quotas, the stricter one stays: the one with the longer
// window. A policy without a window is omitted: these drafts require w, and clients may ignore a
// malformed field.
func (w *Writer) appendIntegerPolicies(
	text []byte, v *values, h http.Header, o *core.Outcome,
) []byte {
	start := len(text)
	outer := fieldPolicy.in(h)
	text = appendList(text, outer, isDigit)
	merged := len(text) > start
	switch {
	case !merged && !w.has(Draft7) && present(outer):
		// An outer limiter has written the field of IETF. That field takes precedence over the
		// field of Draft6, as it does when one limiter writes both formats.
		return text
	case !merged && w.integerMembers != "" && w.allFixed(o):
		v.addShared(fieldPolicy, text, w.integerMembers)
		return text
	}
	for i := range o.Len() {
		d := o.At(i)
		if !w.shows(d) {
			continue
		}
		a := w.allowance(d)
		if a.window == 0 || merged && lists(outer, a.quota) || w.covered(o, i, a) {
			continue
		}
		text = appendIntegerMember(separate(text, start), a)
	}
	if len(text) == start {
		// The existing value is of another format, and RateLimit is now ours.
		delete(h, keys[fieldPolicy])
		return text
	}
	v.add(fieldPolicy, text)
	return text
}

// covered reports whether a list in which no quota may appear twice omits a, the
// allowance of the i-th decision, because another decision of o covers it.
func (w *Writer) covered(o *core.Outcome, i int, a allowance) bool {
	for j := range o.Len() {
		if d := o.At(j); j != i && w.shows(d) && w.allowance(d).covers(a, j < i) {
			return true
		}
	}
	return false
}

// joinIntegerMembers returns RateLimit-Policy with all policies that have a window. It returns ""
// if no policy has a window, or if a policy has no fixed limit.
func (w *Writer) joinIntegerMembers() string {
	var text []byte
	for i := range w.policies {
		if w.policies[i].member == "" {
			return ""
		}
		a := w.policies[i].allowance
		covered := a.window == 0
		for j := range w.policies {
			covered = covered || j != i && w.policies[j].covers(a, j < i)
		}
		if !covered {
			text = appendIntegerMember(separate(text, 0), a)
		}
	}
	return string(text)
}

// covers reports whether a stands for other in a list in which no quota may appear twice: the
// longer window does, or the first of two equal windows.
func (a allowance) covers(other allowance, before bool) bool {
	return a.quota == other.quota && (a.window > other.window || a.window == other.window && before)
}

// appendIntegerMember appends a member of RateLimit-Policy of drafts -04 to -07.
// Policies have no name there.
func appendIntegerMember(text []byte, a allowance) []byte {
	text = strconv.AppendInt(text, a.quota, 10)
	text = append(text, ";w="...)
	return strconv.AppendInt(text, a.window, 10)
}

// allFixed reports whether the fields show every rule of the limiter, and each was
// counted by its fixed limit.
func (w *Writer) allFixed(o *core.Outcome) bool {
	if o.Len() != len(w.policies) {
		return false
	}
	for i := range o.Len() {
		d := o.At(i)
		if !w.shows(d) || !w.policy(d).fixed(d) {
			return false
		}
	}
	return true
}

// entry returns the value of the first dictionary entry in lines that begins with prefix, or "".
func entry(lines []string, prefix string) string {
	for _, line := range lines {
		for e := range strings.SplitSeq(line, ",") {
			if value, ok := strings.CutPrefix(trim(e), prefix); ok {
				return value
			}
		}
	}
	return ""
}

// lists reports whether a member of the list in lines has the given quota.
func lists(lines []string, quota int64) bool {
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			value, _, _ := strings.Cut(trim(member), ";")
			if q, err := strconv.ParseInt(value, 10, 64); err == nil && q == quota {
				return true
			}
		}
	}
	return false
}
