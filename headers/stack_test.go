package headers_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// stacked returns the fields after an outer limiter of perHour and an inner one
// of perMinute have written, each with its own formats and decision.
func stacked(
	t *testing.T, outer headers.Format, hourly limits.Decision, inner headers.Format, minute limits.Decision,
) http.Header {
	t.Helper()
	h := http.Header{}
	for _, l := range []struct {
		format   headers.Format
		policy   published
		decision limits.Decision
	}{{outer, perHour, hourly}, {inner, perMinute, minute}} {
		policies := []published{l.policy}
		w := writer(t, headers.Options{Formats: []headers.Format{l.format}}, policies...)
		w.Write(h, decided(t, policies, l.decision))
		wellFormed(t, h)
	}
	return h
}

func TestStackedLimitersShareOneListOfPolicies(t *testing.T) {
	want(t,
		stacked(t, headers.IETF, allowed(500, 30*time.Minute, time.Hour), headers.IETF,
			denied(0, 30*time.Second, time.Minute)),
		`RateLimit-Policy: "hourly";q=1000;w=3600, "default";q=100;w=60`,
		`RateLimit: "hourly";r=500;t=1800, "default";r=0;t=30`,
		"Retry-After: 30",
	)
}

func TestLinesThatOthersAddedAreFoldedIntoOne(t *testing.T) {
	policies := []published{perMinute}
	h := fields(`RateLimit: "a";r=1 , "b";r=2`, "RateLimit: ", `RateLimit:  "c";r=3`, `RateLimit-Policy: "a";q=1`)
	writer(t, headers.Options{}, policies...).Write(h, decided(t, policies, allowed(50, 30*time.Second, time.Minute)))
	want(t, h,
		`RateLimit: "a";r=1 , "b";r=2, "c";r=3, "default";r=50;t=30`,
		`RateLimit-Policy: "a";q=1, "default";q=100;w=60`,
	)
}

func TestAnEmptyLineIsNoList(t *testing.T) {
	policies := []published{perMinute}
	for _, before := range []http.Header{
		{"Ratelimit": {"", " "}, "Ratelimit-Policy": {}}, {"Ratelimit": nil, "Ratelimit-Policy": {"\t"}},
	} {
		for format, lines := range map[headers.Format][]string{
			headers.IETF:   {`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`},
			headers.Draft7: {"RateLimit-Policy: 100;w=60", "RateLimit: limit=100, remaining=50, reset=60"},
		} {
			h := before.Clone()
			writer(t, headers.Options{Formats: []headers.Format{format}}, policies...).Write(h,
				decided(t, policies, allowed(50, 30*time.Second, time.Minute)))
			want(t, h, lines...)
		}
	}
}

func TestALimitFoundPerRequestIsMergedToo(t *testing.T) {
	h := fields(`RateLimit: "a";r=1`, `RateLimit-Policy: "a";q=1`)
	writer(t, headers.Options{}, published{Name: "default"}).Write(h,
		decided(t, []published{perMinute}, allowed(50, 30*time.Second, time.Minute)))
	want(t, h, `RateLimit: "a";r=1, "default";r=50;t=30`, `RateLimit-Policy: "a";q=1, "default";q=100;w=60`)
}

func TestALimiterThatCountedNothingLeavesTheOuterFieldsAlone(t *testing.T) {
	before := []string{`RateLimit: "a";r=1`, `RateLimit: "b";r=1`, "X-RateLimit-Remaining: 5", "RateLimit-Remaining: 5"}
	policies := []published{perMinute}
	for _, formats := range everyFormat {
		h := fields(before...)
		open := limits.Decision{Allowed: true, Source: limits.SourceOpen}
		writer(t, headers.Options{Formats: formats}, policies...).Write(h, decided(t, policies, open))
		want(t, h, before...)
	}
}

// Fields that hold one policy: the values that the outer limiter (1000 an hour) and
// the inner limiter (100 a minute) write alone, and which of the two remains.
func TestWhereOnePolicyHasRoomTheOneThatBindsIsShownAsASet(t *testing.T) {
	tests := []struct {
		name   string
		hourly limits.Decision
		minute limits.Decision
		inner  bool // the inner one is left
	}{
		{"the lower remaining is further in", allowed(51, 1, time.Hour), allowed(50, 1, time.Minute), true},
		{"the lower remaining is further out", allowed(49, 1, time.Second), allowed(50, 1, time.Minute), false},
		{"equal remaining, longer reset further in", allowed(50, 1, 59*time.Second), allowed(50, 1, time.Minute), true},
		{"equal remaining, longer reset further out", allowed(50, 1, time.Hour), allowed(50, 1, time.Minute), false},
		{"equal in everything", allowed(50, 1, time.Minute), allowed(50, 1, time.Minute), false},
		{"a denial wins", allowed(0, 1, time.Hour), denied(50, time.Second, time.Second), true},
		{"a denial for ever wins", allowed(0, 1, time.Hour), denied(50, limits.Never, time.Second), true},
	}
	sets := map[headers.Format][]string{
		headers.Draft6: {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"},
		headers.Draft7: {"RateLimit"},
		headers.GitHub: {
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Used",
			"X-RateLimit-Resource",
		},
		headers.DeltaSeconds: {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"},
		headers.Discord: {
			"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Reset-After",
			"X-RateLimit-Bucket", "X-RateLimit-Scope",
		},
	}
	for _, tt := range tests {
		for format, set := range sets {
			t.Run(tt.name+"/"+format.String(), func(t *testing.T) {
				options := headers.Options{Formats: []headers.Format{format}}
				left := written(t, options, []published{perHour}, decided(t, []published{perHour}, tt.hourly))
				if tt.inner {
					left = written(t, options, []published{perMinute}, decided(t, []published{perMinute}, tt.minute))
				}
				got := stacked(t, format, tt.hourly, format, tt.minute)
				for _, name := range set {
					if got.Get(name) != left.Get(name) {
						t.Errorf("%s: got %q, want %q", name, got.Get(name), left.Get(name))
					}
				}
				if format == headers.Draft6 || format == headers.Draft7 {
					if policy := got.Get("RateLimit-Policy"); policy != "1000;w=3600, 100;w=60" {
						t.Errorf("RateLimit-Policy: got %s", policy)
					}
				}
			})
		}
	}
}

// An instant after the year 2262 is one that a Writer writes, so it has to read it, too.
func TestAResetInTheFarFutureIsCompared(t *testing.T) {
	policies, options := []published{perMinute}, headers.Options{Formats: []headers.Format{headers.GitHub}}
	at := func(seconds int64) *core.Outcome {
		d := allowed(50, time.Minute, time.Minute)
		d.At = seconds * 1_000_000
		return decided(t, policies, d)
	}
	left := written(t, options, policies, at(9_300_000_000))
	h := left.Clone()
	writer(t, options, policies...).Write(h, at(9_200_000_000))
	if diff := cmp.Diff(left, h); diff != "" {
		t.Errorf("an earlier reset has replaced a later one:\n%s", diff)
	}
}

func TestASetOfAnotherFormatIsReplacedWhole(t *testing.T) {
	h := stacked(t, headers.GitHub, allowed(500, 1, time.Hour), headers.Discord,
		allowed(50, 30*time.Second, time.Minute))
	want(t, h, "X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 1795262460.250",
		"X-RateLimit-Reset-After: 60.000", "X-RateLimit-Bucket: default")

	h = stacked(t, headers.GitHub, allowed(5, 1, time.Hour), headers.Discord, allowed(50, 30*time.Second, time.Minute))
	want(t, h, "X-RateLimit-Limit: 1000", "X-RateLimit-Remaining: 5", "X-RateLimit-Reset: 1795266001",
		"X-RateLimit-Used: 995", "X-RateLimit-Resource: hourly")
}

func TestWhatCannotBeReadIsReplaced(t *testing.T) {
	policies := []published{perMinute}
	o := decided(t, policies, allowed(50, 30*time.Second, time.Minute))
	delta := []string{"X-RateLimit-Limit: 100", "X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 60"}
	for _, before := range [][]string{
		{"X-RateLimit-Remaining: few"},
		{"X-RateLimit-Remaining: "},
		{"X-RateLimit-Remaining: 99999999999999999999"},
		{"X-RateLimit-Remaining: 50"},
		{"X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 2026-11-21T12:00:00Z"},
		{"X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 1.x"},
		{"X-RateLimit-Remaining: 50", "X-RateLimit-Reset: -70"},
		{"X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 99999999999999"},
		{"X-RateLimit-Remaining: 50", "X-RateLimit-Reset: 59.9999999"},
		{"X-RateLimit-Remaining:  51 ", "X-RateLimit-Used: 3"},
	} {
		h := fields(before...)
		writer(t, headers.Options{Formats: []headers.Format{headers.DeltaSeconds}}, policies...).Write(h, o)
		want(t, h, delta...)
	}
}

func TestFieldsOfAnotherTypeAreReplacedNotMixed(t *testing.T) {
	hourly, minute := allowed(5, 18*time.Second, time.Hour), allowed(50, 30*time.Second, time.Minute)
	t.Run("IETF in Draft7", func(t *testing.T) {
		want(t, stacked(t, headers.Draft7, hourly, headers.IETF, minute),
			`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`)
	})
	t.Run("Draft7 in IETF", func(t *testing.T) {
		want(t, stacked(t, headers.IETF, hourly, headers.Draft7, minute),
			"RateLimit-Policy: 100;w=60", "RateLimit: limit=100, remaining=50, reset=60")
	})
	t.Run("IETF in Draft6", func(t *testing.T) {
		want(t, stacked(t, headers.Draft6, hourly, headers.IETF, minute),
			`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`,
			"RateLimit-Limit: 1000", "RateLimit-Remaining: 5", "RateLimit-Reset: 3600")
	})
	t.Run("Draft6 in IETF goes without its policy", func(t *testing.T) {
		want(t, stacked(t, headers.IETF, hourly, headers.Draft6, minute),
			`RateLimit-Policy: "hourly";q=1000;w=3600`, `RateLimit: "hourly";r=5;t=18`,
			"RateLimit-Limit: 100", "RateLimit-Remaining: 50", "RateLimit-Reset: 60")
	})
	t.Run("Draft7 in Draft6 shares its policies", func(t *testing.T) {
		want(t, stacked(t, headers.Draft6, hourly, headers.Draft7, minute),
			"RateLimit-Policy: 1000;w=3600, 100;w=60", "RateLimit: limit=100, remaining=50, reset=60",
			"RateLimit-Limit: 1000", "RateLimit-Remaining: 5", "RateLimit-Reset: 3600")
	})
}

func TestAMergedListOfIntegersHasNoQuotaTwice(t *testing.T) {
	policies := []published{perMinute, perHour}
	o := decided(t, policies, allowed(50, 30*time.Second, time.Minute), allowed(500, 30*time.Minute, time.Hour))
	w := writer(t, headers.Options{Formats: []headers.Format{headers.Draft6}}, policies...)
	for before, after := range map[string]string{
		"7;w=1":                         "7;w=1, 100;w=60, 1000;w=3600",
		"100;w=1":                       "100;w=1, 1000;w=3600",
		`1000;w=1;comment="x", 100;w=1`: `1000;w=1;comment="x", 100;w=1`,
	} {
		h := fields("RateLimit-Policy: " + before)
		w.Write(h, o)
		if got := h.Get("RateLimit-Policy"); got != after {
			t.Errorf("after %s: got %s, want %s", before, got, after)
		}
	}
}

func TestMergingLeavesTheOuterLinesMemoryAlone(t *testing.T) {
	shared := make([]string, 1, 4)
	shared[0] = `"a";r=1`
	policies := []published{perMinute}
	h := http.Header{"Ratelimit": shared}
	writer(t, headers.Options{}, policies...).Write(h, decided(t, policies, allowed(50, 30*time.Second, time.Minute)))
	if shared[0] != `"a";r=1` || shared[:4][1] != "" {
		t.Errorf("got %q", shared[:4])
	}
}
