package client

import (
	"net/http"
	"testing"
	"time"
)

// What the fast reader accepts, the parser of structured fields reads alike.
func FuzzPlainReadsAsTheParserDoes(f *testing.F) {
	f.Add(`"default";r=50;t=30`, `"default";q=100;w=60`)
	f.Add(`"a"; r=0; t=0`, `"a"; q=1`)
	f.Add(`"a";r=999999999999999;t=1`, "")
	f.Add(`"a";r=1000000000000000;t=1`, `"a";q=1`)
	f.Add(`"a\"";r=1;t=1`, `"b";q=1`)
	f.Add(`"a";r=1;t=1`, `"a";q=1;w=0`)
	f.Fuzz(func(t *testing.T, limit, policy string) {
		var policies []string
		if policy != "" {
			policies = []string{policy}
		}
		fast, ok := plain([]string{limit}, policies)
		if !ok {
			return
		}
		slow, ok := parsed([]string{limit}, policies)
		if !ok || fast != slow {
			t.Errorf("%q, %q: fast %+v, parsed %+v %v", limit, policy, fast, slow, ok)
		}
	})
}

// Whatever an answer says, what is read of it is in range.
func FuzzAnswersAreReadInRange(f *testing.F) {
	f.Add("5", `"a";r=1;t=2`, "0", "1", "4000000000", "Thu, 01 Jan 1970 00:00:00 GMT")
	f.Add("9223372036854775807", "limit=1, remaining=0, reset=9", "1.5", "-5", "1e9", "x")
	f.Add("", "", "9", "99999999999999999999.999999999999", "1470173023123", "")
	f.Add("3, 1746136938000", "32/40", "9.5, 0;w=1", "6m0s", "2021-05-10T11:00Z, 1746136938000000001", "Mon, 10 May 2021 10:59:30 GMT")
	f.Fuzz(func(t *testing.T, retry, limit, remaining, reset, xReset, date string) {
		h := make(http.Header)
		for name, value := range map[string]string{
			"Retry-After": retry, fieldRateLimit: limit, fieldDraftRemaining: remaining, fieldDraftReset: reset,
			fieldXRemaining: remaining, fieldXReset: xReset, "Date": date,
			fieldRetryAfterMs: retry, "X-Rate-Limit-Remaining": remaining, "X-Rate-Limit-Reset": reset, fieldShopify: limit,
			"X-Hubspot-Ratelimit-Remaining": remaining, "X-Hubspot-Ratelimit-Interval-Milliseconds": xReset,
		} {
			if value != "" {
				h[name] = []string{value}
			}
		}
		const least = -time.Duration(1<<63 - 1)
		if wait, ok := retryAfter(h); ok && (wait > longest || wait < least) {
			t.Errorf("Retry-After %q is %v", retry, wait)
		}
		if q, ok := quotaOf(h); ok && (q.left < 0 || q.left > maxCount || q.limit < 0 || q.limit > maxCount || q.window > longest || q.source == "") {
			t.Errorf("%v is %+v", h, q)
		}
	})
}
