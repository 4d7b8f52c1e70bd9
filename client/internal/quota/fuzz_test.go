package quota

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// RateLimit is what the parser of structured fields reads, and nothing if that fails.
func FuzzRateLimitReadsAsTheParserDoes(f *testing.F) {
	f.Add(`"default";r=50;t=30`, `"default";q=100;w=60`)
	f.Add(`"a"; r=0; t=0`, `"a"; q=1`)
	f.Add(`"a"; r=-0; t=0`, `"a"; q=-1`)
	f.Add(`"a";r=999999999999999;t=1`, "")
	f.Add(`"a";r=1000000000000000;t=1`, `"a";q=1`)
	f.Add(`"a\"";r=1;t=1`, `"b";q=1`)
	f.Add(`"a";r=1;t=1`, `"a";q=1;w=0`)
	f.Add(`"a";r=1;t=1;r=?1`, `"a";q=1;q="x"`)
	f.Add(`limit=10, remaining=0, reset=9`, "")
	f.Add(`limit=10, remaining=0, reset=9, limit=x`, "")
	f.Add(`"a"; r=0; t=9; pk=:YWJj=:; acme="x;r=5", b;r=0;t=20`,
		`"a";q=100;qu="content-bytes", b;q=7;qu="request"`)
	f.Add(`7;r=1;t=1, (a b);r=0;t=9, "a";r=3;t=5`, `9;q=1, "a";q=3;C`)
	f.Fuzz(func(t *testing.T, limit, policy string) {
		var policies []string
		if policy != "" {
			policies = []string{policy}
		}
		want, ok := parsed([]string{limit}, policies)
		if want.Source == bothNames {
			return
		}
		got, read := rateLimit([]string{limit}, policies)
		if read != ok || ok && got != want {
			t.Errorf("%q, %q: %+v %v, want %+v %v", limit, policy, got, read, want, ok)
		}
	})
}

// bothNames is the Source of a field that has a parameter under its old name and under its new one.
const bothNames = "both names"

// parsed is rateLimit by a parser of RFC 9651.
func parsed(values, policies []string) (least Rest, ok bool) {
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		return parsedDictionary(values)
	}
	known, err := httpsfv.UnmarshalList(policies)
	if err != nil {
		known = nil
	}
	limits, others := map[string]int64{}, map[string]bool{}
	for i, m := range known {
		name, isNamed := nameOf(m)
		if _, twice := limits[name]; !isNamed || twice || i >= maxLimits {
			continue
		}
		item := m.(httpsfv.Item)
		limits[name] = max(0, param(item, "q"))
		if unit, given := item.Params.Get("qu"); given {
			name, isName := nameOf(httpsfv.Item{Value: unit})
			others[text(item)] = !isName || name != "request" && name != "requests"
		}
	}
	for i, m := range list {
		name, isNamed := nameOf(m)
		if !isNamed || i >= maxLimits {
			continue
		}
		item := m.(httpsfv.Item)
		left, end := param(item, "r"), param(item, "t")
		if has(item, "a") {
			left = param(item, "a")
		}
		if has(item, "w") {
			end = param(item, "w")
		}
		if has(item, "r") && has(item, "a") || has(item, "t") && has(item, "w") {
			return Rest{Source: bothNames}, false
		}
		q := Rest{Left: left, Limit: limits[name], end: end, Source: sourceRateLimit}
		if q.Left < 0 || q.end < 0 || others[name] {
			continue
		}
		if !ok || q.Left < least.Left || q.Left == least.Left && q.end > least.end {
			least, ok = q, true
		}
	}
	return least, ok
}

// nameOf returns the name of a member, and whether it is a String that is not empty, or a Token.
func nameOf(m httpsfv.Member) (string, bool) {
	item, isItem := m.(httpsfv.Item)
	if !isItem || !isText(item.Value) {
		return "", false
	}
	name := text(item)
	return name, name != ""
}

func parsedDictionary(values []string) (Rest, bool) {
	dictionary, err := httpsfv.UnmarshalDictionary(values)
	if err != nil {
		return Rest{}, false
	}
	var n [3]int64
	for i, name := range [...]string{"limit", "remaining", "reset"} {
		m, _ := dictionary.Get(name)
		item, isItem := m.(httpsfv.Item)
		if !isItem {
			return Rest{}, false
		}
		if n[i], isItem = item.Value.(int64); !isItem || n[i] < 0 {
			return Rest{}, false
		}
	}
	return Rest{Left: n[1], Limit: n[0], end: n[2], Whole: true, Source: sourceRateLimit}, true
}

func isText(v any) bool {
	switch v.(type) {
	case string, httpsfv.Token:
		return true
	}
	return false
}

func text(item httpsfv.Item) string {
	if s, ok := item.Value.(string); ok {
		return s
	}
	return fmt.Sprint(item.Value)
}

func has(item httpsfv.Item, name string) bool {
	_, ok := item.Params.Get(name)
	return ok
}

func param(item httpsfv.Item, name string) int64 {
	v, _ := item.Params.Get(name)
	if n, ok := v.(int64); ok && n >= 0 {
		return n
	}
	return -1
}

// A cache has answered if a member of a well-formed Cache-Status has the parameter hit, and it is
// true.
func FuzzCacheStatusReadsAsTheParserDoes(f *testing.F) {
	f.Add("ExampleCache; hit")
	f.Add(`"Example Cache"; hit=?1; ttl=5, Other; fwd=miss`)
	f.Add(`a; detail="x; hit"; hit=?0, b; hit;`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := httpsfv.UnmarshalList([]string{text})
		if err != nil {
			list = nil
		}
		want := false
		for _, m := range list {
			item, isItem := m.(httpsfv.Item)
			if name, isNamed := nameOf(m); !isItem || !isNamed || name == "" {
				continue
			}
			value, _ := item.Params.Get("hit")
			want = want || value == true
		}
		if got := FromCache(http.Header{"Cache-Status": {text}}); got != want {
			t.Errorf("%q: from a cache: %v", text, got)
		}
	})
}

// Whatever an answer says, what is read of it is in range.
func FuzzAnswersAreReadInRange(f *testing.F) {
	f.Add("5", `"a";r=1;t=2`, "0", "1", "4000000000", "Thu, 01 Jan 1970 00:00:00 GMT")
	f.Add("9223372036854775807", "limit=1, remaining=0, reset=9", "1.5", "-5", "1e9", "x")
	f.Add("", "", "9", "99999999999999999999.999999999999", "1470173023123", "")
	f.Add("3, 1746136938000", "32/40", "9.5, 0;w=1", "6m0s", "2021-05-10T11:00Z, 1746136938000000001",
		"Mon, 10 May 2021 10:59:30 GMT")
	for i, form := range dateForms { // in every field
		text := time.Unix(1795348830, 0).UTC().Format(strings.ReplaceAll(form.layout, " | ", ""))
		f.Add(text, `"a";r=1;t=2`, "1", text, `"60"`, dateForms[len(dateForms)-1-i].layout)
	}
	f.Add("60 seconds", "limit=1, remaining=0, reset=9", `"9"`, "1 hour 30 minutes", "1d",
		"Sun, 22 Nov 2026 10:00:00 +0000")
	f.Fuzz(func(t *testing.T, retry, limit, remaining, reset, xReset, date string) {
		h := make(http.Header)
		for name, value := range map[string]string{
			"Retry-After": retry, fieldRateLimit: limit, "Ratelimit-Remaining": remaining,
			"Ratelimit-Reset":       reset,
			"X-Ratelimit-Remaining": remaining, "X-Ratelimit-Reset": xReset, "Date": date,
			"Retry-After-Ms": retry, "X-Rate-Limit-Remaining": remaining, "X-Rate-Limit-Reset": reset,
			fieldShopify:                    limit,
			"X-Hubspot-Ratelimit-Remaining": remaining, "X-Hubspot-Ratelimit-Interval-Milliseconds": xReset,
		} {
			if value != "" {
				h[name] = []string{value}
			}
		}
		const least = -time.Duration(1<<63 - 1)
		if wait, _, ok := WaitOf(h); ok && (wait > Longest || wait < least) {
			t.Errorf("Retry-After %q is %v", retry, wait)
		}
		if q, ok := Of(h); ok && (q.Left < 0 || q.Left > MaxCount || q.Limit < 0 ||
			q.Limit > MaxCount || q.Window > Longest || q.Source == "") {
			t.Errorf("%v is %+v", h, q)
		}
	})
}
