package client

import (
	"net/http"
	"strings"
	"time"
)

// Canonical names of the fields that are read, and what WaitError and events call them.
const (
	fieldRateLimit      = "Ratelimit"
	fieldPolicy         = "Ratelimit-Policy"
	fieldDraftRemaining = "Ratelimit-Remaining"
	fieldDraftReset     = "Ratelimit-Reset"
	fieldXLimit         = "X-Ratelimit-Limit"
	fieldXRemaining     = "X-Ratelimit-Remaining"
	fieldXReset         = "X-Ratelimit-Reset"
	fieldShopify        = "X-Shopify-Shop-Api-Call-Limit"
	sourceRateLimit     = "RateLimit"
	sourceShopify       = "X-Shopify-Shop-Api-Call-Limit"
	sourceBackoff       = "backoff"
	sourceLimit         = "limit"
	sourceInFlight      = "in flight"
	sourceFirstAnswer   = "first answer"
	sourceQueue         = "queue"
	maxInteger          = 999_999_999_999_999 // of RFC 9651, section 3.3.1: what is longer is told as this
	maxStructured       = 16 << 10            // of a field: what is longer is no list of policies
	maxList             = 1 << 10             // of a field: what is longer is no list of numbers
	maxLimits           = 16                  // that one field tells
)

// A family is three fields that tell a limit together. docs/client.md says who sends which.
type family struct {
	limit, remaining, reset string // canonical
	source                  string // reset, as it is documented
	milliseconds            bool   // reset is the length of the period, in milliseconds
	part                    bool   // only a part of the limit is renewed at reset
}

// families are all that are read, in the order of belief: newer drafts before older ones, and a number
// of seconds before an instant.
var families = [...]family{
	{limit: "Ratelimit-Limit", remaining: fieldDraftRemaining, reset: fieldDraftReset, source: "RateLimit-Reset"},
	{limit: fieldXLimit, remaining: fieldXRemaining, reset: "X-Ratelimit-Reset-After", source: "X-RateLimit-Reset-After"},
	{limit: fieldXLimit, remaining: fieldXRemaining, reset: fieldXReset, source: "X-RateLimit-Reset"},
	{limit: fieldXLimit, remaining: fieldXRemaining, reset: "X-Ratelimit-Interval-Seconds", source: "X-RateLimit-Interval-Seconds", part: true},
	{limit: "X-Rate-Limit-Limit", remaining: "X-Rate-Limit-Remaining", reset: "X-Rate-Limit-Reset", source: "X-Rate-Limit-Reset"},
	{limit: "X-Ratelimit-Limit-Requests", remaining: "X-Ratelimit-Remaining-Requests", reset: "X-Ratelimit-Reset-Requests", source: "x-ratelimit-reset-requests"},
	{limit: "Anthropic-Ratelimit-Requests-Limit", remaining: "Anthropic-Ratelimit-Requests-Remaining", reset: "Anthropic-Ratelimit-Requests-Reset", source: "anthropic-ratelimit-requests-reset"},
	{limit: "X-Hubspot-Ratelimit-Max", remaining: "X-Hubspot-Ratelimit-Remaining", reset: "X-Hubspot-Ratelimit-Interval-Milliseconds", source: "X-HubSpot-RateLimit-Interval-Milliseconds", milliseconds: true},
}

// quota is what an answer says is left.
type quota struct {
	left   int64
	limit  int64         // 0: not said
	window time.Duration // for which left has to last; 0 or below: renewed by now
	reset  bool          // window is when all of the limit is renewed, of which only a part may be in use
	source string
	date   int64 // that window was measured against, as Unix time; 0: none
	end    int64 // of RateLimit, of which window is made
}

// quotaOf reads the fields in the order of belief. Malformed fields are ignored.
func quotaOf(h http.Header) (quota, bool) {
	if values := h[fieldRateLimit]; len(values) > 0 {
		if q, ok := structured(values, h[fieldPolicy]); ok {
			if q.window = longest; q.end < maxInteger {
				q.window, q.date = number{q.end, 0}.moment(h)
			}
			return q, true
		}
	}
	var remaining []string
	for i := range families {
		f := &families[i]
		if i == 0 || f.remaining != families[i-1].remaining {
			remaining = h[f.remaining]
		}
		if len(remaining) == 0 {
			continue
		}
		if reset := h[f.reset]; len(reset) > 0 {
			if q, ok := f.read(remaining, reset, h); ok {
				return q, true
			}
		}
	}
	if values := h[fieldShopify]; len(values) > 0 {
		return shopify(values[0])
	}
	return quota{}, false
}

// read reads the fields of f. If they tell several limits, the one counts that has the least left, and of
// those the one that lasts longest.
func (f *family) read(remaining, reset []string, h http.Header) (least quota, ok bool) {
	if isOne(remaining) {
		left, isCount := count(bare(remaining[0]))
		if !isCount {
			return quota{}, false
		}
		window, date, ok := f.last(reset, h)
		return quota{left: left, limit: nth(h[f.limit], 0), window: window, reset: !f.part, source: f.source, date: date}, ok
	}
	if size(remaining) > maxList || size(reset) > maxList {
		return quota{}, false
	}
	for i := range maxLimits {
		text, more := element(remaining, i)
		if !more {
			break
		}
		left, isCount := count(bare(text))
		if !isCount {
			continue
		}
		window, date, told := f.end(i, reset, h)
		if told && (!ok || left < least.left || left == least.left && window > least.window) {
			least, ok = quota{left: left, limit: nth(h[f.limit], i), window: window, reset: !f.part, source: f.source, date: date}, true
		}
	}
	return least, ok
}

// last reads when the last of the limits that f tells is renewed.
func (f *family) last(reset []string, h http.Header) (window time.Duration, date int64, ok bool) {
	if f.milliseconds {
		window, ok = milliseconds(reset[0])
		return window, 0, ok
	}
	return latest(reset, h)
}

// end reads when limit i of those that f tells is renewed. One reset is that of all limits.
func (f *family) end(i int, reset []string, h http.Header) (window time.Duration, date int64, ok bool) {
	if len(reset) == 1 {
		if _, _, one := moment(reset[0], h); one || f.milliseconds {
			return f.last(reset, h)
		}
	}
	text, _ := element(reset, i)
	return moment(text, h)
}

// nth reads number i of a field that is a list, or the first: drafts -00 to -03 have policies behind it.
func nth(values []string, i int) int64 {
	if size(values) > maxList {
		return 0
	}
	text, ok := element(values, i)
	if !ok {
		text, _ = element(values, 0)
	}
	n, _ := count(bare(text))
	return n
}

// isOne reports whether a field has one element.
func isOne(values []string) bool { return len(values) == 1 && strings.IndexByte(values[0], ',') < 0 }

// element returns an element of a field that is a list: all its lines are one (RFC 9110, section 5.3).
func element(values []string, i int) (string, bool) {
	for _, s := range values {
		for {
			text, rest, more := strings.Cut(s, ",")
			if i == 0 {
				return text, true
			}
			i--
			if !more {
				break
			}
			s = rest
		}
	}
	return "", false
}

// bare returns an element without its parameters.
func bare(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return s
}

// shopifyEmpties is how long a full bucket of Shopify takes to be empty, whatever its size.
const shopifyEmpties = 20

// shopify reads what is used of a bucket, such as 32/40. It says of no time, but buckets leak a twentieth
// of their size in a second. What is left lasts if requests go as fast as that.
func shopify(s string) (quota, bool) {
	used, size, _ := strings.Cut(s, "/")
	u, ok1 := count(used)
	n, ok2 := count(size)
	if !ok1 || !ok2 || n == 0 {
		return quota{}, false
	}
	left := max(n-u, 0)
	window := time.Duration(float64(left+1) / float64(n) * float64(shopifyEmpties*time.Second))
	return quota{left: left, limit: n, window: min(window, longest), source: sourceShopify}, true
}

func size(values []string) (n int) {
	for _, v := range values {
		n += len(v) + 2
	}
	return n
}
