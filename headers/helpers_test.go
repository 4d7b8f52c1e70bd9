package headers_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// prepared is a backend that answers with its decisions.
type prepared []limits.Decision

func (p prepared) Take(_ context.Context, _ []backends.Charge, out []limits.Decision) error {
	copy(out, p)
	return nil
}

func (p prepared) Supports(limits.Limit) bool { return true }

func (p prepared) Settle(context.Context, []backends.Ending, []limits.Settlement) error { return nil }

// broken is a backend that fails.
type broken struct{}

func (broken) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return fmt.Errorf("broken")
}

// published is a rule with what its fields tell: name, limit and unit.
type published = core.Rule[string]

// rulesOf returns rules with the key "client".
func rulesOf(rules ...published) []core.Rule[string] {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Key = func(key string) (string, error) { return key, nil }
	}
	return rules
}

// decided returns the outcome of a request of "client" under the given policies
// if the backend answers the given decisions.
func decided(t testing.TB, policies []published, decisions ...limits.Decision) *core.Outcome {
	t.Helper()
	return decidedFor(t, "client", rulesOf(policies...), decisions...)
}

func decidedFor(t testing.TB, key string, rules []core.Rule[string], decisions ...limits.Decision) *core.Outcome {
	t.Helper()
	limiter, err := core.New(core.Config[string]{Rules: rules, Backend: prepared(decisions)})
	if err != nil {
		t.Fatal(err)
	}
	o := limiter.Decide(context.Background(), key)
	return &o
}

// allowed is a decision that leaves remaining units to spread over window.
func allowed(remaining int64, window, reset time.Duration) limits.Decision {
	return limits.Decision{Allowed: true, Remaining: remaining, EffectiveWindow: window, ResetAfter: reset, At: at}
}

// queueing is d for a request that has to wait for its turn.
func queueing(d limits.Decision) limits.Decision {
	d.Delay = time.Hour
	return d
}

// leftInQueue makes o, which has to wait for its turn, the outcome of a client that has left.
func leftInQueue(t testing.TB, o *core.Outcome) *core.Outcome {
	t.Helper()
	left, leave := context.WithCancel(context.Background())
	leave()
	if err := core.MustNew(core.Config[string]{Rules: rulesOf(perMinute)}).Wait(left, o); err == nil {
		t.Fatal("it has not waited")
	}
	return o
}

// denied is a decision that asks to wait.
func denied(remaining int64, wait, reset time.Duration) limits.Decision {
	return limits.Decision{Remaining: remaining, RetryAfter: wait, EffectiveWindow: wait, ResetAfter: reset, At: at}
}

// at is the instant of every prepared decision: 2026-11-21 12:00:00.25 UTC.
const at = 1795262400_250000

var (
	perMinute = published{Name: "default", Limit: limits.SlidingWindow(limits.PerMinute(100))}
	perHour   = published{Name: "hourly", Limit: limits.SlidingWindow(limits.PerHour(1000))}
)

func writer(t testing.TB, options headers.Options, policies ...published) *headers.Writer {
	t.Helper()
	w, err := headers.New(options, policies)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// written returns the fields that a writer with options writes about o.
func written(t testing.TB, options headers.Options, policies []published, o *core.Outcome) http.Header {
	t.Helper()
	h := http.Header{}
	writer(t, options, policies...).Write(h, o)
	wellFormed(t, h)
	return h
}

// fields makes a header of "Name: value" lines.
func fields(lines ...string) http.Header {
	h := http.Header{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	if h["X-Ratelimit-Scope"] != nil { // a denial in the form of Discord
		h["Via"] = []string{"1.1 weir"}
	}
	return h
}

// want reports how got differs from the header made of lines.
func want(t testing.TB, got http.Header, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(fields(lines...), sent(got)); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
}

// sent returns the fields of h that are sent: Delete leaves some without lines.
func sent(h http.Header) http.Header {
	h = h.Clone()
	maps.DeleteFunc(h, func(_ string, lines []string) bool { return len(lines) == 0 })
	return h
}

// wellFormed checks that every field of h has one line, under its canonical
// name, that a parser of structured fields understands.
func wellFormed(t testing.TB, h http.Header) {
	t.Helper()
	h = sent(h)
	for _, key := range slices.Sorted(maps.Keys(h)) {
		if key != http.CanonicalHeaderKey(key) {
			t.Errorf("%q is not canonical", key)
		}
		if len(h[key]) != 1 {
			t.Errorf("%s has %d lines: %q", key, len(h[key]), h[key])
			continue
		}
		value := h.Get(key)
		switch {
		case strings.HasPrefix(key, "X-Ratelimit-Reset-") && key != "X-Ratelimit-Reset-After":
			if d, err := time.ParseDuration(value); err != nil || d < 0 {
				t.Errorf("%s: %q is no duration", key, value)
			}
			continue
		case strings.HasPrefix(key, "Anthropic-") && strings.HasSuffix(key, "-Reset"):
			if at, err := time.Parse("2006-01-02T15:04:05Z", value); err != nil || at.Year() < 1970 {
				t.Errorf("%s: %q is no instant", key, value)
			}
			continue
		}
		switch key {
		case "Via":
			if value != "1.1 weir" {
				t.Errorf("%s: %q", key, value)
			}
		case "Ratelimit":
			if strings.HasPrefix(value, `"`) {
				wantMembers(t, key, value, "", map[string]int64{"r": 0, "t": 0, "c": 0, "acme-cost": 0})
			} else {
				wantDictionary(t, value)
			}
		case "Ratelimit-Policy":
			if strings.HasPrefix(value, `"`) {
				wantMembers(t, key, value, "", map[string]int64{"q": 1, "w": 1})
			} else {
				wantMembers(t, key, value, int64(0), map[string]int64{"w": 1})
				wantDistinctQuotas(t, value)
			}
		case "Retry-After", "Retry-After-Ms":
			wantInteger(t, key, value, 1)
		case "X-Should-Retry":
			if value != "false" {
				t.Errorf("%s: %q", key, value)
			}
		case "X-Ratelimit-Reset", "X-Ratelimit-Reset-After":
			if _, err := strconv.ParseFloat(value, 64); err != nil || value[0] == '-' {
				t.Errorf("%s: %q is no number of seconds", key, value)
			}
		case "X-Ratelimit-Resource", "X-Ratelimit-Bucket", "X-Ratelimit-Scope", "X-Ratelimit-Global":
		default:
			wantInteger(t, key, value, 0)
		}
	}
}

func wantInteger(t testing.TB, key, value string, least int64) {
	t.Helper()
	item, err := httpsfv.UnmarshalItem([]string{value})
	if err != nil {
		t.Errorf("%s: %q: %v", key, value, err)
		return
	}
	if n, ok := item.Value.(int64); !ok || n < least {
		t.Errorf("%s: %q is no Integer of at least %d", key, value, least)
	}
}

// wantMembers checks a list of items that are of the type of example and whose
// parameters are the Integers named in least, pk and qu.
func wantMembers(t testing.TB, key, value string, example any, least map[string]int64) {
	t.Helper()
	list, err := httpsfv.UnmarshalList([]string{value})
	if err != nil {
		t.Errorf("%s: %q: %v", key, value, err)
		return
	}
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok || fmt.Sprintf("%T", item.Value) != fmt.Sprintf("%T", example) {
			t.Errorf("%s: %q: member is not a %T", key, value, example)
			continue
		}
		for _, name := range item.Params.Names() {
			v, _ := item.Params.Get(name)
			if _, isBytes := v.([]byte); name == "pk" && isBytes && key == "Ratelimit" {
				continue
			}
			units := []any{
				"content-bytes", "tokens", "input-tokens", "output-tokens", "money", "concurrent-requests", "distinct-values",
			}
			if name == "qu" && key == "Ratelimit-Policy" && slices.Contains(units, v) {
				continue
			}
			n, ok := v.(int64)
			if lowest, known := least[name]; !known || !ok || n < lowest {
				t.Errorf("%s: %q: parameter %s=%v", key, value, name, v)
			}
		}
		for name := range least {
			unit, _ := item.Params.Get("qu")
			optional := name == "t" || name == "c" || name == "acme-cost"
			if _, ok := item.Params.Get(name); ok == (name == "w" && unit == "concurrent-requests") && !optional {
				t.Errorf("%s: %q: parameter %s: present: %v", key, value, name, ok)
			}
		}
	}
}

func wantDistinctQuotas(t testing.TB, value string) {
	t.Helper()
	list, _ := httpsfv.UnmarshalList([]string{value})
	seen := map[any]bool{}
	for _, m := range list {
		q := m.(httpsfv.Item).Value
		if seen[q] {
			t.Errorf("RateLimit-Policy: %q: quota %v appears twice", value, q)
		}
		seen[q] = true
	}
}

func wantDictionary(t testing.TB, value string) {
	t.Helper()
	dict, err := httpsfv.UnmarshalDictionary([]string{value})
	if err != nil {
		t.Errorf("RateLimit: %q: %v", value, err)
		return
	}
	if diff := cmp.Diff([]string{"limit", "remaining", "reset"}, dict.Names()); diff != "" {
		t.Errorf("RateLimit: %q: keys differ (-want +got):\n%s", value, diff)
	}
	for _, name := range dict.Names() {
		m, _ := dict.Get(name)
		if n, ok := m.(httpsfv.Item).Value.(int64); !ok || n < 0 {
			t.Errorf("RateLimit: %q: %s is no Integer of at least 0", value, name)
		}
	}
}
