package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestXRateLimitFieldsOfEachDecision(t *testing.T) {
	policies := []published{perMinute}
	// The decision is made at 1795262400.25 seconds since the epoch.
	tests := []struct {
		name                   string
		decision               limits.Decision
		github, delta, discord []string
		retry                  []string
	}{
		{"allowed", allowed(50, 30*time.Second, 44*time.Second+500*time.Millisecond),
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Used: 50",
				"X-RateLimit-Reset: 1795262445", "X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 45"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 1795262444.750",
				"X-RateLimit-Reset-After: 44.500", "X-RateLimit-Bucket: default",
			},
			nil},
		{"the sum is rounded, not its parts", allowed(50, 30*time.Second, 44*time.Second+750*time.Millisecond),
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Used: 50",
				"X-RateLimit-Reset: 1795262445", "X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 45"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 1795262445.000",
				"X-RateLimit-Reset-After: 44.750", "X-RateLimit-Bucket: default",
			},
			nil},
		{"a microsecond more", allowed(50, 30*time.Second, 44*time.Second+750*time.Millisecond+time.Microsecond),
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Used: 50",
				"X-RateLimit-Reset: 1795262446", "X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 45"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 1795262445.001",
				"X-RateLimit-Reset-After: 44.751", "X-RateLimit-Bucket: default",
			},
			nil},
		{"nothing is left: the reset is the wait until a unit is", allowed(0, 12*time.Second, time.Minute),
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Used: 100",
				"X-RateLimit-Reset: 1795262413", "X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 12"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1795262412.250",
				"X-RateLimit-Reset-After: 12.000", "X-RateLimit-Bucket: default",
			},
			nil},
		{"denied", denied(0, 12*time.Second, time.Minute),
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Used: 100",
				"X-RateLimit-Reset: 1795262413", "X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 12"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 1795262412.250",
				"X-RateLimit-Reset-After: 12.000", "X-RateLimit-Bucket: default", "X-RateLimit-Scope: user",
			},
			[]string{"Retry-After: 12"}},
		{"more left than there can be", allowed(101, 30*time.Second, 0),
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 101", "X-RateLimit-Used: 0",
				"X-RateLimit-Reset: 1795262401", "X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 101", "X-RateLimit-Reset: 0"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 101", "X-RateLimit-Reset: 1795262400.250",
				"X-RateLimit-Reset-After: 0.000", "X-RateLimit-Bucket: default",
			},
			nil},
		{"negative numbers of a faulty backend",
			limits.Decision{Allowed: true, Remaining: -1, ResetAfter: -time.Second, At: -1},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Used: 100", "X-RateLimit-Reset: 0",
				"X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 0"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 0.000",
				"X-RateLimit-Reset-After: 0.000", "X-RateLimit-Bucket: default",
			},
			nil},
		{"huge numbers of a faulty backend",
			limits.Decision{Allowed: true, Remaining: 1, ResetAfter: limits.Never, At: 1<<63 - 1},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 1", "X-RateLimit-Used: 99",
				"X-RateLimit-Reset: 9223372036854", "X-RateLimit-Resource: default",
			},
			[]string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 9223372037"},
			[]string{
				"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 9223372036853.776",
				"X-RateLimit-Reset-After: 9223372036.855", "X-RateLimit-Bucket: default",
			},
			nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := decided(t, policies, tt.decision)
			epoch := []string{tt.github[0], tt.github[1], tt.github[3]} // limit, remaining, reset
			for format, lines := range map[headers.Format][]string{
				headers.GitHub: tt.github, headers.DeltaSeconds: tt.delta, headers.Discord: tt.discord,
				headers.EpochSeconds: epoch,
			} {
				t.Run(format.String(), func(t *testing.T) {
					h := written(t, headers.Options{Formats: []headers.Format{format}}, policies, o)
					want(t, h, append(lines, tt.retry...)...)
				})
			}
		})
	}
}

func TestTheEpochOfAResetDoesNotWobble(t *testing.T) {
	policies := []published{{Name: "default", Limit: limits.FixedWindow(limits.PerMinute(1000))}}
	const end = at/60_000_000*60_000_000 + 60_000_000
	for now := int64(at); now < end; now += 333_337 {
		d := allowed(50, 30*time.Second, time.Duration(end-now)*time.Microsecond)
		d.At = now
		for _, format := range []headers.Format{headers.GitHub, headers.EpochSeconds} {
			options := headers.Options{Formats: []headers.Format{format}}
			got := written(t, options, policies, decided(t, policies, d)).Get("X-RateLimit-Reset")
			if got != "1795262460" {
				t.Fatalf("%v, at %d: got %s, want 1795262460", format, now, got)
			}
		}
	}
}

func TestViaOfAProxyBehindStays(t *testing.T) {
	h := http.Header{"Via": {"1.1 inner"}}
	options := headers.Options{Formats: []headers.Format{headers.Discord}}
	o := decided(t, []published{perMinute}, denied(0, time.Second, time.Minute))
	writer(t, options, perMinute).Write(h, o)
	if got := h["Via"]; len(got) != 1 || got[0] != "1.1 inner" {
		t.Errorf("Via %q", got)
	}
}

func TestDiscordsScopeSaysWhoSharesTheUnits(t *testing.T) {
	policies := []published{
		{Name: "webhook", Limit: perMinute.Limit}, {Name: "everything", Limit: perMinute.Limit},
		{Name: "route", Limit: perMinute.Limit},
	}
	options := headers.Options{
		Formats: []headers.Format{headers.Discord},
		DiscordScopes: map[string]headers.DiscordScope{
			"webhook": headers.DiscordShared, "everything": headers.DiscordGlobal,
		},
	}
	ok, no := allowed(50, 30*time.Second, time.Minute), denied(0, 30*time.Second, time.Minute)
	for _, tt := range []struct {
		name, key, scope, global string
		decisions                []limits.Decision
	}{
		{"many clients", "client", "shared", "", []limits.Decision{no, ok, ok}},
		{"all requests of one client", "client", "global", "true", []limits.Decision{ok, no, ok}},
		{"one client", "client", "user", "", []limits.Decision{ok, ok, no}},
		{"no key", "", "shared", "", []limits.Decision{ok, no, ok}},
		{"allowed", "client", "", "", []limits.Decision{ok, ok, ok}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := written(t, options, policies, decidedFor(t, tt.key, rulesOf(policies...), tt.decisions...))
			if scope, global := h.Get("X-RateLimit-Scope"), h.Get("X-RateLimit-Global"); scope != tt.scope ||
				global != tt.global {
				t.Errorf("got scope %q, global %q; want %q, %q", scope, global, tt.scope, tt.global)
			}
		})
	}
}
