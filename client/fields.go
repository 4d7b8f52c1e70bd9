package client

import (
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Canonical names of the fields that are read.
const (
	fieldRateLimit      = "Ratelimit"
	fieldPolicy         = "Ratelimit-Policy"
	fieldDraftLimit     = "Ratelimit-Limit"
	fieldDraftRemaining = "Ratelimit-Remaining"
	fieldDraftReset     = "Ratelimit-Reset"
	fieldXLimit         = "X-Ratelimit-Limit"
	fieldXRemaining     = "X-Ratelimit-Remaining"
	fieldXReset         = "X-Ratelimit-Reset"
	fieldXResetAfter    = "X-Ratelimit-Reset-After"
	sourceRetryAfter    = "Retry-After"
	sourceRateLimit     = "RateLimit"
	sourceDraftReset    = "RateLimit-Reset"
	sourceXResetAfter   = "X-RateLimit-Reset-After"
	sourceXReset        = "X-RateLimit-Reset"
	sourceBackoff       = "backoff"
	sourceLimit         = "limit"
	sourceInFlight      = "in flight"
	sourceFirstAnswer   = "first answer"
	sourceQueue         = "queue"
	requestUnit         = "requests"
	requestUnitSingular = "request"
	maxStructured       = 16 << 10 // of a field: what is longer is no list of policies
)

// Parameter names of draft -11, and those that a pending change gives to r and t (pull
// request 166 of the working group's repository).
var (
	paramsLeft   = [...]string{"r", "a"}
	paramsWindow = [...]string{"t", "w"}
)

// quota is what an answer says is left.
type quota struct {
	left   int64
	limit  int64         // 0: not said
	window time.Duration // for which left has to last; 0 or below: renewed by now
	reset  bool          // window is when all of the limit is renewed, of which only a part may be in use
	source string
	date   int64 // that window was measured against, as Unix time; 0: none
}

// quotaOf reads the fields in the order of belief: newer drafts before older ones, and a
// number of seconds before an instant. Malformed fields are ignored.
func quotaOf(h http.Header) (quota, bool) {
	if values := h[fieldRateLimit]; len(values) > 0 {
		if q, ok := structured(values, h[fieldPolicy]); ok {
			return q, true
		}
	}
	if left, ok := count(first(h, fieldDraftRemaining)); ok {
		if wait, ok := delta(first(h, fieldDraftReset)); ok {
			return quota{left: left, limit: leading(first(h, fieldDraftLimit)), window: wait, reset: true, source: sourceDraftReset}, true
		}
	}
	left, ok := count(first(h, fieldXRemaining))
	if !ok {
		return quota{}, false
	}
	limit := leading(first(h, fieldXLimit))
	if wait, ok := delta(first(h, fieldXResetAfter)); ok {
		return quota{left: left, limit: limit, window: wait, reset: true, source: sourceXResetAfter}, true
	}
	if wait, date, ok := resetAt(first(h, fieldXReset), h); ok {
		return quota{left: left, limit: limit, window: wait, reset: true, source: sourceXReset, date: date}, true
	}
	return quota{}, false
}

// leading reads the number that a limit starts with: drafts -00 to -03 have
// policies behind it.
func leading(s string) int64 {
	n, ok := count(s)
	if end := strings.IndexAny(s, ",;"); !ok && end >= 0 {
		n, _ = count(s[:end])
	}
	return n
}

// structured reads RateLimit: a List since draft -08, a Dictionary in draft -07.
func structured(values, policies []string) (quota, bool) {
	if size(values) > maxStructured {
		return quota{}, false
	}
	if q, ok := plain(values, policies); ok {
		return q, true
	}
	return parsed(values, policies)
}

func parsed(values, policies []string) (quota, bool) {
	if list, err := httpsfv.UnmarshalList(values); err == nil {
		return leastOf(list, policies)
	}
	dictionary, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return quota{}, false
	}
	var n [3]int64
	for i, name := range [...]string{"limit", "remaining", "reset"} {
		m, _ := dictionary.Get(name)
		item, ok := m.(httpsfv.Item)
		if !ok {
			return quota{}, false
		}
		if n[i], ok = item.Value.(int64); !ok || n[i] < 0 {
			return quota{}, false
		}
	}
	return quota{left: n[1], limit: n[0], window: seconds(n[2], 0), reset: true, source: sourceRateLimit}, true
}

// leastOf returns the member that has the least left, and of those the one that lasts
// longest. A member without a window is no limit on a rate, and one whose policy counts
// another unit is not about requests.
func leastOf(list httpsfv.List, policies []string) (least quota, ok bool) {
	known := policiesOf(policies)
	for _, m := range list {
		item, isItem := m.(httpsfv.Item)
		if !isItem {
			continue
		}
		name := nameOf(item)
		left, ok1 := param(item, paramsLeft[:]...)
		window, ok2 := param(item, paramsWindow[:]...)
		p := known[name]
		if !ok1 || !ok2 || name == "" || p.otherUnit {
			continue
		}
		q := quota{left: left, limit: p.quota, window: seconds(window, 0), source: sourceRateLimit}
		if !ok || q.left < least.left || q.left == least.left && q.window > least.window {
			least, ok = q, true
		}
	}
	return least, ok
}

type policy struct {
	quota     int64
	otherUnit bool
}

// policiesOf reads RateLimit-Policy, nothing if it is malformed.
func policiesOf(values []string) map[string]policy {
	if len(values) == 0 || size(values) > maxStructured {
		return nil
	}
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return nil
	}
	policies := make(map[string]policy, len(list))
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok {
			continue
		}
		q, _ := param(item, "q")
		unit, given := item.Params.Get("qu")
		policies[nameOf(item)] = policy{q, given && unit != requestUnit && unit != requestUnitSingular}
	}
	return policies
}

// nameOf returns the name of a policy: a String, or a Token in what follows draft -11.
func nameOf(item httpsfv.Item) string {
	switch name := item.Value.(type) {
	case string:
		return name
	case httpsfv.Token:
		return string(name)
	}
	return ""
}

// param returns the first of the parameters that is there, if it is a non-negative Integer.
func param(item httpsfv.Item, names ...string) (int64, bool) {
	for _, name := range names {
		if v, there := item.Params.Get(name); there {
			n, ok := v.(int64)
			return n, ok && n >= 0
		}
	}
	return 0, false
}

func size(values []string) (n int) {
	for _, v := range values {
		n += len(v) + 2
	}
	return n
}
