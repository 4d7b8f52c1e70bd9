package headers

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/core"
)

// appendDrafts appends the fields of Draft6 and Draft7 for the decision d that
// binds. Retry is the value of Retry-After, 0 if there is none.
func (w *Writer) appendDrafts(text []byte, v *values, h http.Header, o *core.Outcome, d *core.RuleDecision, retry int64) []byte {
	limit, remaining := w.terms(d).quota, count(d.Remaining)
	// Draft -07, section 4: reset should be what Retry-After is.
	reset := retry
	if retry == 0 {
		reset = ceilSeconds(d.ResetAfter)
	}
	ours := standing{!d.Allowed, remaining, reset * microsPerSecond}
	if w.has(Draft6) && ours.binds(first(fieldRemaining.in(h)), first(fieldReset.in(h))) {
		text = v.addInteger(fieldLimit, text, limit)
		text = v.addInteger(fieldRemaining, text, remaining)
		text = v.addInteger(fieldReset, text, reset)
	}
	if outer := fieldRateLimit.in(h); w.has(Draft7) && ours.binds(entry(outer, "remaining="), entry(outer, "reset=")) {
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
	return w.appendIntegerPolicies(text, v, fieldPolicy.in(h), o)
}

// appendIntegerPolicies appends RateLimit-Policy of drafts -04 to -07, merged
// with what outer has of it. No quota may appear twice (draft -07, section
// 3.5): what outer lists stays, and of ours the one with the longer window,
// which is the stricter.
func (w *Writer) appendIntegerPolicies(text []byte, v *values, outer []string, o *core.Outcome) []byte {
	start := len(text)
	text = appendList(text, outer, isDigit)
	merged := len(text) > start
	switch {
	case !merged && !w.has(Draft7) && present(outer):
		// The List of Strings of an outer limiter that writes IETF. As when
		// one limiter writes both, it goes before that of Draft6.
		return text
	case !merged && w.integerMembers != "" && w.allFixed(o):
		return v.addString(fieldPolicy, text, w.integerMembers)
	}
	for i := range o.Len() {
		d := o.At(i)
		if !w.shows(&d) {
			continue
		}
		t := w.terms(&d)
		if merged && lists(outer, t.quota) || w.covered(o, i, t) {
			continue
		}
		text = appendIntegerMember(separate(text, start), t)
	}
	v.add(fieldPolicy, text)
	return text
}

// covered reports whether another decision of o stands for the i-th, which was
// held to t, in a list where no quota appears twice.
func (w *Writer) covered(o *core.Outcome, i int, t terms) bool {
	for j := range o.Len() {
		if d := o.At(j); j != i && w.shows(&d) && w.terms(&d).covers(t, j < i) {
			return true
		}
	}
	return false
}

// joinIntegerMembers returns RateLimit-Policy of all policies, "" if one has no
// fixed limit.
func (w *Writer) joinIntegerMembers() string {
	var text []byte
	for i := range w.policies {
		if w.policies[i].member == "" {
			return ""
		}
		t, covered := w.policies[i].terms, false
		for j := range w.policies {
			covered = covered || j != i && w.policies[j].covers(t, j < i)
		}
		if !covered {
			text = appendIntegerMember(separate(text, 0), t)
		}
	}
	return string(text)
}

// covers reports whether t stands for other where no quota appears twice: the
// longer window does, or else the one that comes before.
func (t terms) covers(other terms, before bool) bool {
	return t.quota == other.quota && (t.window > other.window || t.window == other.window && before)
}

// appendIntegerMember appends the member of a RateLimit-Policy of drafts -04 to
// -07, whose policies have no name.
func appendIntegerMember(text []byte, t terms) []byte {
	text = strconv.AppendInt(text, t.quota, 10)
	text = append(text, ";w="...)
	return strconv.AppendInt(text, t.window, 10)
}

// allFixed reports whether every rule of the limiter is shown, and was counted by
// a fixed limit.
func (w *Writer) allFixed(o *core.Outcome) bool {
	if o.Len() != len(w.policies) {
		return false
	}
	for i := range o.Len() {
		d := o.At(i)
		if !w.shows(&d) || !w.policy(&d).fixed(&d) {
			return false
		}
	}
	return true
}

// entry returns the value of the dictionary entry in lines that begins with
// prefix, "" if there is none.
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
