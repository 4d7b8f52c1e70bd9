package quota

import "github.com/weir-go/weir/internal/http/structured"

// absent is the value of a parameter that is missing, or no number of units or seconds.
const absent = -1

// rateLimit reads RateLimit: a List since draft -08, a Dictionary before. A malformed field is
// ignored whole (RFC 9651, section 4.2), and so is a malformed RateLimit-Policy. Of the first
// maxLimits members, the one with the least left counts; of equal ones, the one that lasts Longest.
// A member without a window does not limit a rate, and one that is no String or Token is not from
// these drafts.
func rateLimit(values, policies []string) (least Rest, ok bool) {
	if size(values) > maxStructured {
		return Rest{}, false
	}
	list := structured.List(values)
	for n := 0; list.Member(); n++ {
		if n >= maxLimits || !isName(list.Value) {
			continue
		}
		name, r, t := list.Value.Text, int64(absent), int64(absent)
		for list.Parameter() {
			switch list.Key {
			case "r", "a": // a and w are in a pending change of draft -11: pull request 166
				r = natural(list.Value)
			case "t", "w":
				t = natural(list.Value)
			}
		}
		if r < 0 || t < 0 || ok && (r > least.Left || r == least.Left && t <= least.end) {
			continue
		}
		if limit, inRequests := policyOf(policies, name); inRequests {
			least, ok = Rest{Left: r, Limit: limit, end: t, Source: sourceRateLimit}, true
		}
	}
	if list.Malformed() {
		return ofDraft07(values)
	}
	return least, ok
}

// ofDraft07 reads a Dictionary:
//
//	RateLimit: limit=10, remaining=0, reset=9
func ofDraft07(values []string) (Rest, bool) {
	q := Rest{Left: absent, Limit: absent, end: absent, Whole: true, Source: sourceRateLimit}
	dictionary := structured.Dictionary(values)
	for dictionary.Member() {
		switch dictionary.Key {
		case "limit":
			q.Limit = natural(dictionary.Value)
		case "remaining":
			q.Left = natural(dictionary.Value)
		case "reset":
			q.end = natural(dictionary.Value)
		}
	}
	return q, q.Limit >= 0 && q.Left >= 0 && q.end >= 0 && !dictionary.Malformed()
}

// policyOf reads the first member of RateLimit-Policy with a name: its limit, or 0, and whether it
// counts requests.
func policyOf(policies []string, name string) (limit int64, inRequests bool) {
	if len(policies) == 0 || size(policies) > maxStructured {
		return 0, true
	}
	inRequests = true
	list := structured.List(policies)
	for n, found := 0, false; list.Member(); n++ {
		if found || n >= maxLimits || !isName(list.Value) || list.Value.Text != name {
			continue
		}
		found = true
		for list.Parameter() {
			switch v := list.Value; list.Key {
			case "q":
				limit = max(natural(v), 0)
			case "qu":
				inRequests = isName(v) && (v.Text == "requests" || v.Text == "request")
			}
		}
	}
	if list.Malformed() {
		return 0, true
	}
	return limit, inRequests
}

// isName reports whether v can name a limit. The drafts write a String; servers write Tokens, too.
func isName(v structured.Value) bool {
	return v.Kind == structured.String && v.Text != "" || v.Kind == structured.Token
}

// natural returns v if it is a non-negative Integer, or else absent.
func natural(v structured.Value) int64 {
	if v.Kind != structured.Integer || v.N < 0 {
		return absent
	}
	return v.N
}
