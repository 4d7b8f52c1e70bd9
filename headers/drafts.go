package headers

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
)

// drafts writes the fields of [Draft6] and [Draft7].
type drafts struct {
	rules   *rules
	formats formats

	// members is RateLimit-Policy for an outcome in which every rule was counted by its fixed limit;
	// "" if a rule has no fixed limit. It saves about 10% of an answer with Draft7.
	members string
}

// newDrafts returns the drafts of rules, whose members of [IETF] are set.
func newDrafts(formats formats, rules *rules) drafts {
	f := drafts{rules: rules, formats: formats}
	if formats.has(Draft6) || formats.has(Draft7) { // expensive: compares all policies with each other
		f.members = f.joinMembers()
	}
	return f
}

// appendTo appends the fields of Draft6 and Draft7 for d, the binding decision. retry is the
// value of Retry-After, or 0 without one.
func (f *drafts) appendTo(
	text []byte, v *values, h http.Header, o *core.Outcome, d *core.RuleDecision, retry int64,
) []byte {
	limit, remaining := f.rules.allowance(d).quota, count(d.Remaining)
	// Draft -07, section 4: reset should equal Retry-After.
	reset := retry
	if retry == 0 {
		reset = ceilSeconds(untilLeft(d, 0))
	}
	ours := standing{!d.Allowed, remaining, reset * microsPerSecond}
	if f.formats.has(Draft6) && ours.binds(first(fieldRemaining.in(h)), first(fieldReset.in(h))) {
		text = v.addInteger(fieldLimit, text, limit)
		text = v.addInteger(fieldRemaining, text, remaining)
		text = v.addInteger(fieldReset, text, reset)
	}
	if outer := fieldRateLimit.in(h); f.formats.has(Draft7) &&
		ours.binds(entry(outer, "remaining="), entry(outer, "reset=")) {
		text = append(text, "limit="...)
		text = strconv.AppendInt(text, limit, 10)
		text = append(text, ", remaining="...)
		text = strconv.AppendInt(text, remaining, 10)
		text = append(text, ", reset="...)
		text = v.addInteger(fieldRateLimit, text, reset)
	}
	if f.formats.has(IETF) {
		return text
	}
	return f.appendPolicies(text, v, h, o)
}

// appendPolicies appends RateLimit-Policy of drafts -04 to -07, merged with the lines that h
// has already. No quota may appear twice (draft -07, section 3.5). A quota that is listed there
// stays. Of our own policies with equal quotas, the stricter one stays: the one with the longer
// window. A policy without a window is omitted: these drafts require w, and clients may ignore a
// malformed field.
func (f *drafts) appendPolicies(
	text []byte, v *values, h http.Header, o *core.Outcome,
) []byte {
	start := len(text)
	outer := fieldPolicy.in(h)
	text = appendList(text, outer, isDigit)
	merged := len(text) > start
	switch {
	case !merged && !f.formats.has(Draft7) && present(outer):
		// An outer limiter has written the field of IETF. That field takes precedence over the
		// field of Draft6, as it does when one limiter writes both formats.
		return text
	case !merged && f.members != "" && f.rules.allFixed(o):
		v.addShared(fieldPolicy, text, f.members)
		return text
	}
	for i := range o.Len() {
		d := o.At(i)
		if !f.rules.shows(d) {
			continue
		}
		a := f.rules.allowance(d)
		if a.window == 0 || merged && lists(outer, a.quota) || f.covered(o, i, a) {
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
func (f *drafts) covered(o *core.Outcome, i int, a allowance) bool {
	for j := range o.Len() {
		if d := o.At(j); j != i && f.rules.shows(d) && f.rules.allowance(d).covers(a, j < i) {
			return true
		}
	}
	return false
}

// joinMembers returns RateLimit-Policy with all policies that have a window. It returns ""
// if no policy has a window, or if a policy has no fixed limit.
func (f *drafts) joinMembers() string {
	var text []byte
	for i := range f.rules.policies {
		if f.rules.policies[i].member == "" {
			return ""
		}
		a := f.rules.policies[i].allowance
		covered := a.window == 0
		for j := range f.rules.policies {
			covered = covered || j != i && f.rules.policies[j].covers(a, j < i)
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
