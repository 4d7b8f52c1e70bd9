package headers_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestDraft6AndDraft7FieldsOfEachDecision(t *testing.T) {
	draft6 := headers.Options{Formats: []headers.Format{headers.Draft6}}
	draft7 := headers.Options{Formats: []headers.Format{headers.Draft7}}
	policies := []published{perMinute}
	tests := []struct {
		name     string
		decision limits.Decision
		draft6   []string
		draft7   string
		retry    []string
	}{
		{"allowed", allowed(50, 30*time.Second, 44*time.Second+1),
			[]string{"RateLimit-Limit: 100", "RateLimit-Remaining: 50", "RateLimit-Reset: 45"},
			"RateLimit: limit=100, remaining=50, reset=45", nil},
		{"untouched", allowed(100, 60*time.Second, 0),
			[]string{"RateLimit-Limit: 100", "RateLimit-Remaining: 100", "RateLimit-Reset: 0"},
			"RateLimit: limit=100, remaining=100, reset=0", nil},
		{"denied: reset is Retry-After", denied(0, 12*time.Second, time.Minute),
			[]string{"RateLimit-Limit: 100", "RateLimit-Remaining: 0", "RateLimit-Reset: 12"},
			"RateLimit: limit=100, remaining=0, reset=12", []string{"Retry-After: 12"}},
		{"denied with units left", denied(7, time.Millisecond, time.Minute),
			[]string{"RateLimit-Limit: 100", "RateLimit-Remaining: 7", "RateLimit-Reset: 1"},
			"RateLimit: limit=100, remaining=7, reset=1", []string{"Retry-After: 1"}},
		{"denied for ever: reset is still required", denied(60, limits.Never, 24*time.Second),
			[]string{"RateLimit-Limit: 100", "RateLimit-Remaining: 60", "RateLimit-Reset: 24"},
			"RateLimit: limit=100, remaining=60, reset=24", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := decided(t, policies, tt.decision)
			common := append(tt.retry, "RateLimit-Policy: 100;w=60")
			want(t, written(t, draft6, policies, o), append(tt.draft6, common...)...)
			want(t, written(t, draft7, policies, o), append(common, tt.draft7)...)
		})
	}
}

func TestDraft6AndDraft7ShareOnePolicyField(t *testing.T) {
	policies := []published{perMinute, perHour}
	options := headers.Options{Formats: []headers.Format{headers.Draft7, headers.Draft6}}
	want(t,
		written(t, options, policies,
			decided(t, policies, allowed(50, 30*time.Second, time.Minute), allowed(500, 30*time.Minute, time.Hour))),
		"RateLimit-Policy: 100;w=60, 1000;w=3600",
		"RateLimit: limit=100, remaining=50, reset=60",
		"RateLimit-Limit: 100", "RateLimit-Remaining: 50", "RateLimit-Reset: 60",
	)
}

func TestDraft6BesideIETFGoesWithoutItsPolicy(t *testing.T) {
	policies := []published{perMinute}
	options := headers.Options{Formats: []headers.Format{headers.Draft6, headers.IETF}}
	want(t, written(t, options, policies, decided(t, policies, denied(0, 12*time.Second, time.Minute))),
		`RateLimit-Policy: "default";q=100;w=60`,
		`RateLimit: "default";r=0;t=12`,
		"RateLimit-Limit: 100", "RateLimit-Remaining: 0", "RateLimit-Reset: 12",
		"Retry-After: 12",
	)
}

func TestTheRuleThatBindsIsTheOneShown(t *testing.T) {
	policies := []published{perMinute, perHour}
	options := headers.Options{Formats: []headers.Format{headers.Draft7}}
	for _, tt := range []struct {
		name           string
		minute, hourly limits.Decision
		want           string
	}{
		{"the lower remaining", allowed(50, 1, time.Minute), allowed(49, 1, time.Hour),
			"limit=1000, remaining=49, reset=3600"},
		{"then the longer reset", allowed(50, 1, time.Minute), allowed(50, 1, time.Hour),
			"limit=1000, remaining=50, reset=3600"},
		{"then the first", allowed(50, 1, time.Minute), allowed(50, 1, time.Minute),
			"limit=100, remaining=50, reset=60"},
		{"the denied", denied(50, time.Second, time.Minute), allowed(0, 1, time.Hour),
			"limit=100, remaining=50, reset=1"},
		{"the longer wait", denied(0, time.Second, time.Minute), denied(9, 2*time.Second, time.Hour),
			"limit=1000, remaining=9, reset=2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := written(t, options, policies, decided(t, policies, tt.minute, tt.hourly))
			if got := h.Get("RateLimit"); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOfPoliciesWithOneQuotaTheStricterIsListed(t *testing.T) {
	options := headers.Options{Formats: []headers.Format{headers.Draft6}}
	second := published{Name: "second", Limit: limits.FixedWindow(limits.PerSecond(10))}
	minute := published{Name: "minute", Limit: limits.FixedWindow(limits.PerMinute(10))}
	twin := published{Name: "twin", Limit: limits.SlidingLog(limits.PerMinute(10))}
	day := published{Name: "day", Limit: limits.FixedWindow(limits.PerDay(100))}
	d := allowed(5, time.Second, time.Second)
	for _, tt := range []struct {
		name     string
		policies []published
		want     string
	}{
		{"the longer window after", []published{second, minute, day}, "10;w=60, 100;w=86400"},
		{"the longer window before", []published{minute, second, day}, "10;w=60, 100;w=86400"},
		{"equal windows", []published{day, minute, twin}, "100;w=86400, 10;w=60"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := decided(t, tt.policies, d, d, d)
			for name, policies := range map[string][]published{"fixed": tt.policies, "unknown": nil} {
				if got := written(t, options, policies, o).Get("RateLimit-Policy"); got != tt.want {
					t.Errorf("%s: got %s, want %s", name, got, tt.want)
				}
			}
		})
	}

	t.Run("but not if it did not count", func(t *testing.T) {
		policies := []published{second, minute, day}
		open := limits.Decision{Allowed: true, Source: limits.SourceOpen}
		h := written(t, options, policies, decided(t, policies, d, open, d))
		if got := h.Get("RateLimit-Policy"); got != "10;w=1, 100;w=86400" {
			t.Errorf("got %s", got)
		}
	})
}
