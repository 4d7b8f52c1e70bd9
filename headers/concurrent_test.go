package headers_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

var (
	uploads = published{Name: "uploads", Limit: limits.Concurrent(10)}

	// held and full are decisions of a concurrency limit as the engine makes them.
	held = func(free int64) limits.Decision { return allowed(free, limits.Never, 0) }
	full = limits.Decision{RetryAfter: time.Second, EffectiveWindow: limits.Never, At: at}
)

// Ten at once, counted by the memory backend at 15.25 seconds past a full minute.
// First 4 units are allowed, then 7 are denied, then 11, for which no wait helps.
func TestTheAnswersOfAConcurrencyLimit(t *testing.T) {
	now := time.Unix(1795262415, 250_000_000)
	limiter := core.MustNew(core.Config[int64]{
		Rules: []core.Rule[int64]{{
			Name: "uploads", Limit: uploads.Limit,
			Key:  func(int64) (string, error) { return "client", nil },
			Cost: func(n int64) int64 { return n },
		}},
		Backend: memory.MustNew(memory.Options{MaxKeys: 1, Clock: func() time.Time { return now }}),
	})
	for _, tt := range []struct {
		units int64
		more  []string
		scope []string // of Discord
	}{
		{4, nil, nil},
		{7, []string{"Retry-After: 1"}, []string{"X-RateLimit-Scope: user"}},
		{11, nil, []string{"X-RateLimit-Scope: user"}},
	} {
		o := limiter.Decide(context.Background(), tt.units)
		triple := []string{"RateLimit-Limit: 10", "RateLimit-Remaining: 6", "RateLimit-Reset: 1"}
		x := []string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 6"}
		// 16.25, rounded up
		github := append([]string{"X-RateLimit-Reset: 1795262417", "X-RateLimit-Used: 4",
			"X-RateLimit-Resource: uploads"}, x...)
		discord := append([]string{"X-RateLimit-Reset: 1795262416.250", "X-RateLimit-Reset-After: 1.000",
			"X-RateLimit-Bucket: uploads"}, x...)
		for format, lines := range map[headers.Format][]string{
			headers.IETF: {
				`RateLimit-Policy: "uploads";q=10;qu="concurrent-requests"`, `RateLimit: "uploads";r=6`,
			},
			headers.Draft7:       {"RateLimit: limit=10, remaining=6, reset=1"},
			headers.Draft6:       triple,
			headers.GitHub:       github,
			headers.DeltaSeconds: append([]string{"X-RateLimit-Reset: 1"}, x...),
			headers.EpochSeconds: append([]string{"X-RateLimit-Reset: 1795262417"}, x...),
			headers.Discord:      append(discord, tt.scope...),
		} {
			t.Run(fmt.Sprint(format, tt.units), func(t *testing.T) {
				for _, p := range []published{
					uploads, {Name: "uploads", Limit: uploads.Limit, Unit: core.ConcurrentRequests}, {Name: "uploads"},
				} {
					for _, choice := range []headers.RetryAfter{headers.LeastWait, headers.Window} {
						options := headers.Options{
							Formats: []headers.Format{format}, RetryAfter: choice, CapPace: format == headers.IETF,
						}
						want(t, written(t, options, []published{p}, &o), append(lines, tt.more...)...)
					}
				}
			})
		}
	}
}

func TestAConcurrencyLimitBesideARate(t *testing.T) {
	policies := []published{uploads, perMinute}
	minute := allowed(50, 30*time.Second, time.Minute)
	tests := []struct {
		name      string
		decisions []limits.Decision
		retry     headers.RetryAfter
		ietf      []string
		draft7    []string
	}{
		{"allowed", []limits.Decision{held(3), minute}, headers.Window,
			[]string{`RateLimit: "uploads";r=3, "default";r=50;t=30`},
			[]string{"RateLimit: limit=10, remaining=3, reset=1"}},
		{"full", []limits.Decision{full, minute}, headers.Window,
			[]string{`RateLimit: "uploads";r=0, "default";r=50;t=30`, "Retry-After: 1"},
			[]string{"RateLimit: limit=10, remaining=0, reset=1", "Retry-After: 1"}},
		{"both denied", []limits.Decision{full, denied(0, 30*time.Second, time.Minute)}, headers.LeastWait,
			[]string{`RateLimit: "uploads";r=0, "default";r=0;t=30`, "Retry-After: 30"},
			[]string{"RateLimit: limit=100, remaining=0, reset=30", "Retry-After: 30"}},
		{"both denied, window", []limits.Decision{full, denied(0, 30*time.Second, time.Minute)}, headers.Window,
			[]string{`RateLimit: "uploads";r=0, "default";r=0;t=30`, "Retry-After: 60"},
			[]string{"RateLimit: limit=100, remaining=0, reset=60", "Retry-After: 60"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := decided(t, policies, tt.decisions...)
			for _, known := range [][]published{policies, {{Name: "uploads"}, {Name: "default"}}} {
				want(t, written(t, headers.Options{RetryAfter: tt.retry}, known, o),
					append(tt.ietf,
						`RateLimit-Policy: "uploads";q=10;qu="concurrent-requests", "default";q=100;w=60`)...)
				want(t,
					written(t, headers.Options{RetryAfter: tt.retry, Formats: []headers.Format{headers.Draft7}}, known,
						o),
					append(tt.draft7, "RateLimit-Policy: 100;w=60")...)
			}
		})
	}
}

// Drafts -04 to -07 require w. A policy without it does not displace one of equal quota.
func TestPoliciesOfOldDraftsHaveAWindowOrAreOmitted(t *testing.T) {
	tenPerMinute := published{Name: "ten", Limit: limits.FixedWindow(limits.PerMinute(10))}
	options := headers.Options{Formats: []headers.Format{headers.Draft6}}
	for _, policies := range [][]published{{uploads, tenPerMinute}, {tenPerMinute, uploads}} {
		o := decided(t, policies, allowed(3, limits.Never, 0), allowed(3, limits.Never, 0))
		for name, known := range map[string][]published{"fixed": policies, "unknown": nil} {
			if got := written(t, options, known, o).Get("RateLimit-Policy"); got != "10;w=60" {
				t.Errorf("%s: got %q", name, got)
			}
		}
	}
	o := decided(t, []published{uploads}, held(3))
	for before, after := range map[string]string{"": "", "7;w=1": "7;w=1"} {
		h := http.Header{}
		if before != "" {
			h.Set("RateLimit-Policy", before)
		}
		writer(t, options, uploads).Write(h, o)
		if got := h.Get("RateLimit-Policy"); got != after {
			t.Errorf("after %q: got %q, want %q", before, got, after)
		}
	}
}

func TestAConcurrencyLimitStacks(t *testing.T) {
	tests := []struct {
		name          string
		outer, inner  published
		first, second limits.Decision
		format        headers.Format
		want          []string
	}{
		{"inside a rate", perHour, uploads, allowed(500, 30*time.Minute, time.Hour), held(3), headers.IETF,
			[]string{
				`RateLimit-Policy: "hourly";q=1000;w=3600, "uploads";q=10;qu="concurrent-requests"`,
				`RateLimit: "hourly";r=500;t=1800, "uploads";r=3`,
			}},
		{"around a rate", uploads, perHour, held(3), allowed(500, 30*time.Minute, time.Hour), headers.IETF,
			[]string{
				`RateLimit-Policy: "uploads";q=10;qu="concurrent-requests", "hourly";q=1000;w=3600`,
				`RateLimit: "uploads";r=3, "hourly";r=500;t=1800`,
			}},
		{"inside a rate, full", perHour, uploads, allowed(500, 30*time.Minute, time.Hour), full, headers.IETF,
			[]string{
				`RateLimit-Policy: "hourly";q=1000;w=3600, "uploads";q=10;qu="concurrent-requests"`,
				`RateLimit: "hourly";r=500;t=1800, "uploads";r=0`, "Retry-After: 1",
			}},
		{"Draft7: fewer left", perHour, uploads, allowed(500, 30*time.Minute, time.Hour), held(3), headers.Draft7,
			[]string{"RateLimit-Policy: 1000;w=3600", "RateLimit: limit=10, remaining=3, reset=1"}},
		{"Draft7: more left", perHour, uploads, allowed(2, 30*time.Minute, time.Hour), held(3), headers.Draft7,
			[]string{"RateLimit-Policy: 1000;w=3600", "RateLimit: limit=1000, remaining=2, reset=3600"}},
		{"Draft7: a rate within", uploads, perHour, held(3), allowed(500, 30*time.Minute, time.Hour), headers.Draft7,
			[]string{"RateLimit-Policy: 1000;w=3600", "RateLimit: limit=10, remaining=3, reset=1"}},
		{"EpochSeconds: equal, so the longer reset", uploads, perHour, held(3), allowed(3, 30*time.Minute, time.Hour),
			headers.EpochSeconds,
			[]string{"X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 3", "X-RateLimit-Reset: 1795266001"}},
		{"DeltaSeconds: full", perHour, uploads, allowed(0, 30*time.Minute, time.Hour), full, headers.DeltaSeconds,
			[]string{"X-RateLimit-Limit: 10", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1", "Retry-After: 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			options := headers.Options{Formats: []headers.Format{tt.format}}
			h := written(t, options, []published{tt.outer}, decided(t, []published{tt.outer}, tt.first))
			writer(t, options, tt.inner).Write(h, decided(t, []published{tt.inner}, tt.second))
			wellFormed(t, h)
			want(t, h, tt.want...)
		})
	}
	t.Run("Draft7 in IETF leaves no policy of IETF", func(t *testing.T) {
		h := written(t, headers.Options{}, []published{perHour},
			decided(t, []published{perHour}, allowed(500, 30*time.Minute, time.Hour)))
		writer(t, headers.Options{Formats: []headers.Format{headers.Draft7}}, uploads).Write(h,
			decided(t, []published{uploads}, held(3)))
		want(t, h, "RateLimit: limit=10, remaining=3, reset=1")
	})
}

func TestShowHidesAConcurrencyLimitLikeAnyOther(t *testing.T) {
	policies := []published{uploads, perMinute}
	minute := allowed(50, 30*time.Second, time.Minute)
	ok, no := decided(t, policies, held(3), minute), decided(t, policies, full, minute)
	onDenial := headers.Options{Show: headers.OnDenial}
	want(t, written(t, onDenial, policies, ok))
	want(t, written(t, onDenial, policies, no),
		`RateLimit-Policy: "uploads";q=10;qu="concurrent-requests"`, `RateLimit: "uploads";r=0`, "Retry-After: 1")
	onDenial.Formats = []headers.Format{headers.Draft6}
	want(t, written(t, onDenial, policies, no),
		"RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 1", "Retry-After: 1")
	omit := headers.Options{Show: headers.Omit}
	want(t, written(t, omit, policies, ok))
	want(t, written(t, omit, policies, no), "Retry-After: 1")
}

// A fallback of several instances holds each to a share.
func TestAShareOfAConcurrencyLimitHasNoWindowEither(t *testing.T) {
	limiter := core.MustNew(core.Config[string]{Rules: rulesOf(uploads), Backend: brokenSettler{}, Instances: 4})
	o := limiter.Decide(t.Context(), "client")
	want(t, written(t, headers.Options{}, []published{uploads}, &o),
		`RateLimit-Policy: "uploads";q=3;qu="concurrent-requests"`, `RateLimit: "uploads";r=2`)
}

// brokenSettler is a backend that fails and could end what it takes.
type brokenSettler struct{ broken }

func (brokenSettler) Supports(limits.Limit) bool { return true }

func (brokenSettler) Settle(context.Context, []backends.Ending, []limits.Settlement) error {
	return nil
}

func TestJitterOfAConcurrencyLimitMovesRetryAfterAlone(t *testing.T) {
	seen := map[string]bool{}
	for range 300 {
		h := written(t, headers.Options{Jitter: 10 * time.Second}, []published{uploads},
			decided(t, []published{uploads}, full))
		if retry := integer(t, h.Get("Retry-After")); retry < 1 || retry > 11 || h.Get("RateLimit") != `"uploads";r=0` {
			t.Fatalf("got %v", h)
		}
		seen[h.Get("Retry-After")] = true
	}
	if len(seen) < 5 {
		t.Errorf("300 draws of up to 10s gave only %v", seen)
	}
}

func TestTheUnitOfAPolicyFitsItsLimit(t *testing.T) {
	for _, tt := range []struct {
		limit limits.Limit
		unit  core.Unit
		want  string
	}{
		{uploads.Limit, core.Requests, ""},
		{uploads.Limit, core.ConcurrentRequests, ""},
		{uploads.Limit, core.ContentBytes, "a concurrency limit counts concurrent requests: remove Unit (got " +
			"content-bytes)"},
		{perMinute.Limit, core.ContentBytes, ""},
		{perMinute.Limit, core.ConcurrentRequests,
			"only a concurrency limit counts concurrent requests: remove Unit or use limits.Concurrent"},
		{limits.Limit{}, core.ConcurrentRequests,
			"only a concurrency limit counts concurrent requests: remove Unit or use limits.Concurrent"},
		{perMinute.Limit, core.DistinctValues,
			"only a distinct limit counts values: remove Unit or use limits.Distinct"},
		{limits.Distinct(limits.PerHour(3)), core.ContentBytes,
			"a distinct limit counts values: remove Unit (got content-bytes)"},
		{perMinute.Limit, core.OutputTokens, ""},
		{uploads.Limit, core.Tokens, "a concurrency limit counts concurrent requests: remove Unit (got tokens)"},
		{perMinute.Limit, core.Money, ""},
		{perMinute.Limit, 8, "must be Requests, ContentBytes, Tokens, InputTokens, OutputTokens or Money (got 8)"},
	} {
		_, err := headers.New(headers.Options{}, []published{{Name: "p", Limit: tt.limit, Unit: tt.unit}})
		switch {
		case tt.want == "" && err != nil, tt.want != "" &&
			(err == nil || err.Error() != `headers: rule "p": unit: `+tt.want):
			t.Errorf("%v, %v: got error %v", tt.limit, tt.unit, err)
		}
	}
}
