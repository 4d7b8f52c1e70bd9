package client

import (
	"net/http"
	"strings"
	"time"
)

// Canonical names of the fields that are read, and what WaitError and events call them.
const (
	fieldRateLimit  = "Ratelimit"
	fieldPolicy     = "Ratelimit-Policy"
	fieldShopify    = "X-Shopify-Shop-Api-Call-Limit"
	sourceRateLimit = "RateLimit"
	maxInteger      = 999_999_999_999_999 // RFC 9651, section 3.3.1; longer times are sent as this
	maxStructured   = 16 << 10            // bytes of a field that lists policies
	maxList         = 1 << 10             // bytes of a field that lists numbers
	maxLimits       = 16                  // limits in one field
)

// A family is three fields that tell a limit together. docs/client.md says who sends which.
type family struct {
	limit, remaining, reset string
	source                  string // reset as it is documented; the three above become canonical
	milliseconds            bool   // reset is the length of the period, in milliseconds
	part                    bool   // only a part of the limit is renewed at reset
}

// families are all families, in the order in which they are believed: newer drafts before older
// ones, and a number of seconds before an instant.
var families = [...]family{
	{limit: "RateLimit-Limit", remaining: "RateLimit-Remaining", reset: "RateLimit-Reset"},
	{limit: "X-RateLimit-Limit", remaining: "X-RateLimit-Remaining", reset: "X-RateLimit-Reset-After"},
	{limit: "X-RateLimit-Limit", remaining: "X-RateLimit-Remaining", reset: "X-RateLimit-Reset"},
	{limit: "X-RateLimit-Limit", remaining: "X-RateLimit-Remaining",
		reset: "X-RateLimit-Interval-Seconds", part: true},
	{limit: "X-Rate-Limit-Limit", remaining: "X-Rate-Limit-Remaining", reset: "X-Rate-Limit-Reset"},
	{limit: "x-ratelimit-limit-requests", remaining: "x-ratelimit-remaining-requests",
		reset: "x-ratelimit-reset-requests"},
	{limit: "anthropic-ratelimit-requests-limit",
		remaining: "anthropic-ratelimit-requests-remaining",
		reset:     "anthropic-ratelimit-requests-reset"},
	{limit: "X-HubSpot-RateLimit-Max", remaining: "X-HubSpot-RateLimit-Remaining",
		reset: "X-HubSpot-RateLimit-Interval-Milliseconds", milliseconds: true},
}

func init() {
	for i := range families {
		families[i].canonicalize()
	}
}

// canonicalize makes the names of f those of [http.Header].
func (f *family) canonicalize() {
	f.source = f.reset
	for _, field := range []*string{&f.limit, &f.remaining, &f.reset} {
		*field = http.CanonicalHeaderKey(*field)
	}
}

// quota is the rest of a limit, as an answer tells it.
type quota struct {
	left   int64
	limit  int64         // 0: not told
	window time.Duration // how long left has to last; 0 or negative: it is renewed by now
	whole  bool          // all of the limit is renewed after window, even if little was used
	source string
	date   int64 // Date that window was measured from, in Unix time; 0: none
	end    int64 // number in RateLimit from which window is computed
}

// quotaOf reads the first well-formed fields in the order in which they are believed.
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
		if i == 0 || f.remaining != families[i-1].remaining { // spares a look-up
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

// read reads the fields of f. Of several limits, such as "1, 15000" of Brave Search, the one with
// the least left counts; of equal ones the one that lasts longest.
func (f *family) read(remaining, reset []string, h http.Header) (least quota, ok bool) {
	if size(remaining) > maxList || size(reset) > maxList {
		return quota{}, false
	}
	_, several := element(remaining, 1)
	for i := range maxLimits {
		text, more := element(remaining, i)
		if !more {
			break
		}
		left, isCount := count(bare(text))
		if !isCount {
			continue
		}
		window, date, told := f.end(i, several, reset, h)
		if told && (!ok || left < least.left || left == least.left && window > least.window) {
			least, ok = quota{
				left: left, limit: nth(h[f.limit], i), window: window, whole: !f.part,
				source: f.source, date: date,
			}, true
		}
	}
	return least, ok
}

// end reads when limit i is renewed, which is one of several or the only one. If reset has a single
// moment, that is the end of all limits.
func (f *family) end(i int, several bool, reset []string, h http.Header) (
	window time.Duration, date int64, ok bool) {
	if !several || f.milliseconds {
		return latest(reset, f.milliseconds, h)
	}
	if len(reset) == 1 {
		if window, date, ok = moment(reset[0], h); ok {
			return window, date, ok
		}
	}
	text, _ := element(reset, i)
	return moment(text, h)
}

// nth reads number i of a list, or else the first: in drafts -00 to -03 policies follow it.
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

// element returns element i of a list. All lines of a field are one list (RFC 9110, section 5.3).
func element(values []string, i int) (string, bool) {
	for _, s := range values {
		for more := true; more; i-- {
			var text string
			if text, s, more = strings.Cut(s, ","); i == 0 {
				return text, true
			}
		}
	}
	return "", false
}

// bare returns an element without its parameters.
func bare(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return s
}

// shopifyEmpties is how long a full bucket of Shopify takes to empty, whatever its size.
const shopifyEmpties = 20 * time.Second

// shopify reads the used part of a bucket, such as 32/40. The field tells no time, but every bucket
// leaks a twentieth of its size in a second. So window is how long the rest lasts at that rate:
//
//	32/40: 8 are left, the bucket leaks 2 a second, and the 9th may go after 4.5 s
func shopify(s string) (quota, bool) {
	used, size, _ := strings.Cut(s, "/")
	u, ok1 := count(used)
	n, ok2 := count(size)
	if !ok1 || !ok2 || n == 0 {
		return quota{}, false
	}
	left := max(n-u, 0)
	window := time.Duration(float64(left+1) / float64(n) * float64(shopifyEmpties))
	return quota{left: left, limit: n, window: min(window, longest), source: fieldShopify}, true
}

// size returns how many bytes the lines of a field have, as one list.
func size(values []string) (n int) {
	for _, v := range values {
		n += len(v) + 2
	}
	return n
}
