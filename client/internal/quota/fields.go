package quota

import (
	"net/http"
	"strings"
	"time"
)

// Canonical names of the fields that are read, and the documented one.
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

// Family is three fields that tell a limit together. docs/outgoing.md says who sends which.
type Family struct {
	limit, remaining, reset string // canonical names
	source                  string // reset as it is documented
	milliseconds            bool   // reset is the length of the period, in milliseconds
	part                    bool   // only a part of the limit is renewed at reset
	again                   bool   // limit and remaining are those of the family before
}

// FamilyOf returns the family of three fields, given by their documented names.
func FamilyOf(limit, remaining, reset string) Family {
	return Family{
		limit: http.CanonicalHeaderKey(limit), remaining: http.CanonicalHeaderKey(remaining),
		reset: http.CanonicalHeaderKey(reset), source: reset,
	}
}

// families are all families, in the order in which they are believed: newer drafts before older
// ones, and a number of seconds before an instant.
var families = [...]Family{
	FamilyOf("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
	FamilyOf("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset-After"),
	again(FamilyOf("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")),
	ofPart(again(FamilyOf("X-RateLimit-Limit", "X-RateLimit-Remaining",
		"X-RateLimit-Interval-Seconds"))),
	FamilyOf("X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"),
	FamilyOf("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests",
		"x-ratelimit-reset-requests"),
	FamilyOf("anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining",
		"anthropic-ratelimit-requests-reset"),
	inMilliseconds(FamilyOf("X-HubSpot-RateLimit-Max", "X-HubSpot-RateLimit-Remaining",
		"X-HubSpot-RateLimit-Interval-Milliseconds")),
}

// again spares a look-up.
func again(f Family) Family {
	f.again = true
	return f
}

func ofPart(f Family) Family {
	f.part = true
	return f
}

func inMilliseconds(f Family) Family {
	f.milliseconds = true
	return f
}

// Rest is what is left of a limit, as an answer tells it.
type Rest struct {
	Left   int64
	Limit  int64         // 0: not told
	Window time.Duration // how long Left has to last; 0 or negative: it is renewed by now
	Whole  bool          // all of the limit is renewed after Window, even if little was used
	Source string        // the field that tells Window
	Date   int64         // Date that Window was measured from, in Unix time; 0: none
	end    int64         // number in RateLimit from which Window is computed
}

// Part returns which part of the limit is left.
func (r *Rest) Part() float64 { return float64(r.Left) / float64(max(r.Limit, 1)) }

// Ample reports whether so much is left that a denial has to be about another limit: more than a
// tenth, and more than two. A request that costs more than one unit may be denied though some are.
func (r *Rest) Ample() bool { return r.Left > max(r.Limit/10, 2) }

// Of reads every family of fields. The one with the least left counts: a gateway and the service
// behind it may each tell a limit. Of equal ones it is the first in the order in which they are
// believed, since one server may tell one limit in several families.
func Of(h http.Header) (least Rest, ok bool) {
	if values := h[fieldRateLimit]; len(values) > 0 {
		if least, ok = rateLimit(values, h[fieldPolicy]); ok {
			if least.Window = Longest; least.end < maxInteger {
				least.Window, least.Date = number{least.end, 0}.moment(h)
			}
		}
	}
	var remaining []string
	for i := range families {
		f := &families[i]
		if !f.again {
			remaining = h[f.remaining]
		}
		if len(remaining) == 0 {
			continue
		}
		if reset := h[f.reset]; len(reset) > 0 {
			if q, one := f.read(remaining, reset, h); one {
				remaining = nil // another reset is of the same limit
				if !ok || q.Left < least.Left {
					least, ok = q, true
				}
			}
		}
	}
	if values := h[fieldShopify]; len(values) > 0 {
		if q, one := shopify(values[0]); one && (!ok || q.Left < least.Left) {
			least, ok = q, true
		}
	}
	return least, ok
}

// Read reads the fields of f.
func (f *Family) Read(h http.Header) (least Rest, ok bool) {
	return f.read(h[f.remaining], h[f.reset], h)
}

// read reads two fields of f, and its limit in h. Of several limits, such as "1, 15000" of Brave Search, the one with
// the least left counts; of equal ones the one that lasts Longest.
func (f *Family) read(remaining, reset []string, h http.Header) (least Rest, ok bool) {
	if size(remaining) > maxList || size(reset) > maxList {
		return Rest{}, false
	}
	several, most := true, maxLimits
	if len(remaining) == 1 && strings.IndexByte(remaining[0], ',') < 0 {
		several, most = false, 1
	}
	for i := range most {
		text, more := element(remaining, i)
		if !more {
			break
		}
		left, isCount := count(bare(text))
		if !isCount {
			continue
		}
		window, date, told := f.end(i, several, reset, h)
		if told && (!ok || left < least.Left || left == least.Left && window > least.Window) {
			least, ok = Rest{
				Left: left, Limit: nth(h[f.limit], i), Window: window, Whole: !f.part,
				Source: f.source, Date: date,
			}, true
		}
	}
	return least, ok
}

// end reads when limit i is renewed, which is one of several or the only one. If reset has a single
// moment, that is the end of all limits.
func (f *Family) end(i int, several bool, reset []string, h http.Header) (
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
	if len(values) == 0 || size(values) > maxList {
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
	if i == 0 && len(values) == 1 && strings.IndexByte(values[0], ',') < 0 {
		return values[0], true
	}
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
	if end := strings.IndexByte(s, ';'); end >= 0 {
		return s[:end]
	}
	return s
}

// shopifyEmpties is how long a full bucket of Shopify takes to empty, whatever its size.
const shopifyEmpties = 20 * time.Second

// shopify reads the used part of a bucket, such as 32/40. The field tells no time, but every bucket
// leaks a twentieth of its size in a second. So window is how long the rest lasts at that rate:
//
//	32/40: 8 are left, the bucket leaks 2 a second, and the 9th may go after 4.5 s
func shopify(s string) (Rest, bool) {
	used, size, _ := strings.Cut(s, "/")
	u, ok1 := count(used)
	n, ok2 := count(size)
	if !ok1 || !ok2 || n == 0 {
		return Rest{}, false
	}
	left := max(n-u, 0)
	window := time.Duration(float64(left+1) / float64(n) * float64(shopifyEmpties))
	return Rest{Left: left, Limit: n, Window: min(window, Longest), Source: fieldShopify}, true
}

// size returns how many bytes the lines of a field have, as one list.
func size(values []string) (n int) {
	for _, v := range values {
		n += len(v) + 2
	}
	return n
}
