package headers_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// everyFormat are sets of formats that together name every format once.
var everyFormat = [][]headers.Format{
	{headers.IETF, headers.Draft6, headers.GitHub},
	{headers.Draft7, headers.Discord},
	{headers.DeltaSeconds, headers.OpenAI},
	{headers.EpochSeconds, headers.Anthropic},
}

func TestShowSaysWhichAnswersHaveFieldsAndRetryAfterStays(t *testing.T) {
	policies := []published{perMinute}
	ok := decided(t, policies, allowed(50, 30*time.Second, time.Minute))
	no := decided(t, policies, denied(0, 30*time.Second, time.Minute))
	shown := []string{`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=0;t=30`}
	const retry = "Retry-After: 30"

	always := headers.Options{Show: headers.Always}
	want(t, written(t, always, policies, ok), shown[0], `RateLimit: "default";r=50;t=30`)
	want(t, written(t, always, policies, no), append(shown, retry)...)

	onDenial := headers.Options{Show: headers.OnDenial}
	want(t, written(t, onDenial, policies, ok))
	want(t, written(t, onDenial, policies, no), append(shown, retry)...)

	omit := headers.Options{Show: headers.Omit}
	want(t, written(t, omit, policies, ok))
	want(t, written(t, omit, policies, no), retry)
}

// A login that is denied for its address must not show how many tries a user has left.
func TestOnDenialShowsOnlyWhatWasDenied(t *testing.T) {
	user, address, route := published{Name: "user", Limit: limits.FixedWindow(limits.PerHour(3))}, perMinute, perHour
	policies := []published{user, address, route}
	spent := denied(0, 30*time.Second, time.Minute)
	for name, formats := range map[string][]headers.Format{
		"IETF":           {headers.IETF},
		"IETF and more":  {headers.IETF, headers.Draft6, headers.GitHub},
		"Draft7":         {headers.Draft7},
		"Draft6":         {headers.Draft6},
		"GitHub":         {headers.GitHub},
		"DeltaSeconds":   {headers.DeltaSeconds},
		"Discord":        {headers.Discord},
		"Discord and so": {headers.Draft7, headers.Draft6, headers.Discord},
		"OpenAI":         {headers.OpenAI},
		"Anthropic":      {headers.Anthropic},
	} {
		for _, fixed := range []bool{true, false} { // fixed limits, and limits per request
			t.Run(fmt.Sprint(name, fixed), func(t *testing.T) {
				known := slices.Clone(policies)
				if !fixed {
					for i := range known {
						known[i].Limit = limits.Limit{}
					}
				}
				options := headers.Options{Formats: formats, Show: headers.OnDenial}
				w := writer(t, options, known...)
				alone := written(t, options, []published{address}, decided(t, []published{address}, spent))
				for _, tries := range []int64{0, 1, 2} {
					h := http.Header{}
					w.Write(h,
						decided(t, policies, allowed(tries, time.Hour, time.Hour), spent,
							allowed(999, time.Hour, time.Hour)))
					if diff := cmp.Diff(alone, h); diff != "" {
						t.Errorf("%d tries left: the fields are not those of the address alone:\n%s", tries, diff)
					}
				}
			})
		}
	}
	o := decided(t, policies, denied(0, time.Hour, time.Hour), spent, allowed(999, time.Hour, time.Hour))
	want(t, written(t, headers.Options{Show: headers.OnDenial}, policies, o),
		`RateLimit-Policy: "user";q=3;w=3600, "default";q=100;w=60`,
		`RateLimit: "user";r=0;t=3600, "default";r=0;t=30`,
		"Retry-After: 3600")
}

func TestAnInnerDenialHidesWhatTheOuterLimiterHides(t *testing.T) {
	outer, inner := []published{perHour}, []published{perMinute}
	for _, formats := range everyFormat {
		for _, outerShow := range []headers.Show{headers.OnDenial, headers.Omit} {
			for _, innerShow := range []headers.Show{headers.Always, headers.OnDenial, headers.Omit} {
				h := http.Header{}
				writer(t, headers.Options{Formats: formats, Show: outerShow}, outer...).Write(h,
					decided(t, outer, allowed(999, time.Hour, time.Hour)))
				o := decided(t, inner, denied(0, 30*time.Second, time.Minute))
				options := headers.Options{Formats: formats, Show: innerShow}
				writer(t, options, inner...).Write(h, o)
				if diff := cmp.Diff(written(t, options, inner, o), h); diff != "" {
					t.Errorf("%v, %d in %d: not the inner limiter's fields alone:\n%s", formats, innerShow, outerShow,
						diff)
				}
			}
		}
	}
}

func TestWhatIsNotShownDoesNotRaiseRetryAfter(t *testing.T) {
	policies := []published{perMinute}
	o := decided(t, policies, denied(50, time.Second, time.Second))
	options := headers.Options{CapPace: true, Show: headers.Omit}
	want(t, written(t, options, policies, o), "Retry-After: 1")
}

func TestAnUnavailableOutcomeGetsRetryAfterAlone(t *testing.T) {
	rules := rulesOf(perMinute, perHour)
	rules[1].Key = func(string) (string, error) { return "", errors.New("secret") }
	o := decidedFor(t, "client", rules, allowed(50, 30*time.Second, time.Minute))
	if o.Verdict() != core.Unavailable {
		t.Fatalf("got %v", o.Verdict())
	}
	for _, formats := range everyFormat {
		want(t, written(t, headers.Options{Formats: formats}, []published{perMinute, perHour}, o), "Retry-After: 1")
	}
}

func TestABackendAndFallbackThatFailGetRetryAfterAlone(t *testing.T) {
	limiter, err := core.New(core.Config[string]{Rules: rulesOf(perMinute), Backend: broken{}, Fallback: broken{}})
	if err != nil {
		t.Fatal(err)
	}
	o := limiter.Decide(context.Background(), "client")
	want(t, written(t, headers.Options{}, []published{perMinute}, &o), "Retry-After: 1")
}

func TestAnAbandonedOutcomeGetsRetryAfterAlone(t *testing.T) {
	limiter, err := core.New(core.Config[string]{Rules: rulesOf(perMinute)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := limiter.Decide(ctx, "client")
	if o.Verdict() != core.Abandoned {
		t.Fatalf("got %v", o.Verdict())
	}
	want(t, written(t, headers.Options{}, []published{perMinute}, &o), "Retry-After: 1")
}

func TestTheZeroOutcomeIsADenial(t *testing.T) {
	for _, formats := range everyFormat {
		lines := []string{"Retry-After: 1"}
		if slices.Contains(formats, headers.OpenAI) || slices.Contains(formats, headers.Anthropic) {
			lines = append(lines, "Retry-After-Ms: 1000")
		}
		want(t, written(t, headers.Options{Formats: formats}, []published{perMinute}, new(core.Outcome)),
			lines...)
	}
}

func TestAnOutcomeWithoutRulesGetsNothing(t *testing.T) {
	rules := rulesOf(perMinute)
	rules[0].Key = core.When(func(string) bool { return false }, rules[0].Key)
	o := decidedFor(t, "client", rules)
	for _, formats := range everyFormat {
		want(t, written(t, headers.Options{Formats: formats}, []published{perMinute}, o))
	}
}

func TestOtherFieldsStay(t *testing.T) {
	policies := []published{perMinute}
	h := fields("Content-Type: text/plain", "Retry-After: 7")
	writer(t, headers.Options{}, policies...).Write(h, decided(t, policies, allowed(50, 30*time.Second, time.Minute)))
	want(t, h, "Content-Type: text/plain", "Retry-After: 7", `RateLimit-Policy: "default";q=100;w=60`,
		`RateLimit: "default";r=50;t=30`)
}

func TestJitterIsAddedAlikeToRetryAfterAndTOfDenyingRules(t *testing.T) {
	policies := []published{perMinute, perHour, {Name: "other", Limit: perHour.Limit}}
	options := headers.Options{Jitter: 10 * time.Second}
	o := decided(t, policies, denied(0, 30*time.Second, time.Minute), denied(0, 20*time.Second, time.Minute),
		allowed(5, 18*time.Second, time.Hour))
	w := writer(t, options, policies...)
	seen := map[string]bool{}
	for range 300 {
		h := http.Header{}
		w.Write(h, o)
		wellFormed(t, h)
		retry, err := strconv.Atoi(h.Get("Retry-After"))
		if err != nil || retry < 30 || retry > 40 {
			t.Fatalf("got Retry-After %q", h.Get("Retry-After"))
		}
		want := fmt.Sprintf(`"default";r=0;t=%d, "hourly";r=0;t=%d, "other";r=5;t=18`, retry, retry-10)
		if got := h.Get("RateLimit"); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
		seen[h.Get("Retry-After")] = true
	}
	if len(seen) < 5 {
		t.Errorf("300 draws of up to 10s gave only %v", seen)
	}
}

func TestJitterLeavesAllowedAnswersAndNeverAlone(t *testing.T) {
	policies := []published{perMinute}
	options := headers.Options{Jitter: 24 * time.Hour}
	for range 50 {
		want(t, written(t, options, policies, decided(t, policies, allowed(50, 30*time.Second, time.Minute))),
			`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=50;t=30`)
		want(t, written(t, options, policies, decided(t, policies, denied(100, limits.Never, 0))),
			`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=100`)
		h := written(t, options, policies, decided(t, policies, denied(0, limits.Never-1, 0)))
		if got := h.Get("Retry-After"); len(got) != len("9223372037") {
			t.Fatalf("got Retry-After %q", got)
		}
	}
}

func TestJitterMovesTheDraftsResetWithRetryAfter(t *testing.T) {
	policies := []published{perMinute}
	options := headers.Options{Formats: []headers.Format{headers.Draft6}, Jitter: time.Hour}
	for range 50 {
		h := written(t, options, policies, decided(t, policies, denied(0, 30*time.Second, time.Minute)))
		if h.Get("RateLimit-Reset") != h.Get("Retry-After") {
			t.Fatalf("got %v", h)
		}
	}
}

func TestAChangeToOneAnswerReachesNoOther(t *testing.T) {
	policies := []published{perMinute}
	for _, formats := range everyFormat {
		w := writer(t, headers.Options{Formats: formats}, policies...)
		o := decided(t, policies, denied(0, 30*time.Second, time.Minute))
		first, second := http.Header{}, http.Header{}
		w.Write(first, o)
		before := first.Clone()
		w.Write(second, o)
		for key := range second {
			second[key][0] = "changed"
			second.Add(key, "added")
			for other, values := range second {
				if other != key && len(values) != 1 && values[0] != "changed" {
					t.Errorf("adding to %s changed %s to %q", key, other, values)
				}
			}
		}
		for key, values := range second {
			if diff := cmp.Diff([]string{"changed", "added"}, values); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", key, diff)
			}
		}
		if diff := cmp.Diff(before, first); diff != "" {
			t.Errorf("another answer changed (-want +got):\n%s", diff)
		}
		third := http.Header{}
		w.Write(third, o)
		if diff := cmp.Diff(before, third); diff != "" {
			t.Errorf("a later answer changed (-want +got):\n%s", diff)
		}
	}
}

func TestOneWriterServesManyGoroutines(t *testing.T) {
	policies := []published{perMinute, {Name: "plan"}}
	rules := rulesOf(policies...)
	rules[1].LimitFor = func(string, string) (limits.Limit, error) { return perHour.Limit, nil }
	o := decidedFor(t, "client", rules, allowed(50, 30*time.Second, time.Minute), denied(0, 30*time.Second, time.Hour))
	w := writer(t, headers.Options{Formats: everyFormat[0], PartitionKey: headers.Digest}, policies...)
	expected := http.Header{}
	w.Write(expected, o)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				h := http.Header{}
				w.Write(h, o)
				if !maps.EqualFunc(h, expected, func(a, b []string) bool {
					return strings.Join(a, "\n") == strings.Join(b, "\n")
				}) {
					t.Errorf("got %v, want %v", h, expected)
				}
			}
		})
	}
	wg.Wait()
}

func TestAnAnswerCostsTwoAllocations(t *testing.T) {
	for name, decisions := range map[string][]limits.Decision{
		"allowed": {
			allowed(99, 10*time.Second, time.Second), allowed(50, 30*time.Second, time.Minute),
			allowed(500, 30*time.Minute, time.Hour),
		},
		"denied": {
			allowed(99, 10*time.Second, time.Second), denied(0, 30*time.Second, time.Minute),
			allowed(500, 30*time.Minute, time.Hour),
		},
	} {
		for _, formats := range append(everyFormat, nil) {
			w := writer(t, headers.Options{Formats: formats, CapPace: formats == nil, Jitter: time.Second},
				threePolicies...)
			o := decided(t, threePolicies, decisions...)
			h := http.Header{}
			w.Write(h, o)
			if got := testing.AllocsPerRun(100, func() { clear(h); w.Write(h, o) }); got > 2 {
				t.Errorf("%s, formats %v: %v allocations", name, formats, got)
			}
		}
	}
}
