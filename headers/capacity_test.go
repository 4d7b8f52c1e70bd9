package headers_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// capacity returns the outcome of rules about capacity, where marked, and others.
func capacity(t *testing.T, policies []published, marked []string, decisions ...limits.Decision) *core.Outcome {
	t.Helper()
	rules := rulesOf(policies...)
	for i := range rules {
		rules[i].DenyAs503 = slices.Contains(marked, rules[i].Name)
	}
	return decidedFor(t, "client", rules, decisions...)
}

func TestA503HasNoFieldsOfAnyRule(t *testing.T) {
	policies := []published{uploads, perMinute}
	minute := allowed(50, 30*time.Second, time.Minute)
	fails := rulesOf(policies...)
	fails[1].Key = func(string) (string, error) { return "", fmt.Errorf("no key") }
	queued := leftInQueue(t, decided(t, policies, held(3), queueing(minute)))
	for name, o := range map[string]*core.Outcome{
		"full":        capacity(t, policies, []string{"uploads"}, full, minute),
		"undecided":   decidedFor(t, "client", fails, held(3)),
		"no room":     queued,
		"all at once": capacity(t, policies, []string{"uploads", "default"}, full, denied(0, time.Second, time.Minute)),
	} {
		for _, formats := range append(everyFormat, nil) {
			for _, show := range []headers.Show{headers.Always, headers.OnDenial, headers.Omit} {
				options := headers.Options{
					Formats: formats, Show: show,
					Custom: func(http.Header, core.Outcome) { t.Errorf("%s: Custom was called", name) },
				}
				w := writer(t, options, policies...)
				h := http.Header{}
				w.Write(h, o)
				want(t, h, "Retry-After: 1")

				// Nor of a limiter around this one, in whatever format.
				for _, outer := range everyFormat {
					h := written(t, headers.Options{Formats: outer}, []published{perHour},
						decided(t, []published{perHour}, allowed(500, 30*time.Minute, time.Hour)))
					h.Set("X-Request-Id", "7")
					w.Write(h, o)
					want(t, h, "Retry-After: 1", "X-Request-Id: 7")
				}
			}
		}
	}
}

func TestRetryAfterOfA503IsAsOptionsSay(t *testing.T) {
	policies := []published{uploads, perMinute}
	o := capacity(t, policies, []string{"uploads", "default"}, full, denied(7, 12*time.Second, time.Minute))
	want(t, written(t, headers.Options{CapPace: true}, policies, o), "Retry-After: 12")
	want(t, written(t, headers.Options{RetryAfter: headers.Window}, policies, o), "Retry-After: 60")
	o = capacity(t, policies, []string{"uploads"}, full, allowed(7, time.Second, time.Minute))
	want(t, written(t, headers.Options{RetryAfter: headers.Window}, policies, o), "Retry-After: 1")
}

func TestCapacityBesideAnotherDenialIsA429WithTheFieldsOfBoth(t *testing.T) {
	policies := []published{uploads, perMinute}
	decisions := []limits.Decision{full, denied(0, 30*time.Second, time.Minute)}
	mixed := capacity(t, policies, []string{"uploads"}, decisions...)
	for _, formats := range everyFormat {
		for _, show := range []headers.Show{headers.Always, headers.OnDenial, headers.Omit} {
			options := headers.Options{Formats: formats, Show: show}
			if diff := cmp.Diff(written(t, options, policies, decided(t, policies, decisions...)),
				written(t, options, policies, mixed)); diff != "" {
				t.Errorf("%v, show %d: not the fields of a denial without DenyAs503:\n%s", formats, show, diff)
			}
		}
	}
	// Allowed, a rule about capacity is shown like any other.
	want(t,
		written(t, headers.Options{}, policies,
			capacity(t, policies, []string{"uploads"}, held(3), allowed(50, 30*time.Second, time.Minute))),
		`RateLimit-Policy: "uploads";q=10;qu="concurrent-requests", "default";q=100;w=60`,
		`RateLimit: "uploads";r=3, "default";r=50;t=30`)
}

func TestAnAnswerAboutCapacityCostsTwoAllocations(t *testing.T) {
	policies := []published{uploads, perMinute}
	w := writer(t, headers.Options{Jitter: time.Second}, policies...)
	h := http.Header{}
	for _, o := range []*core.Outcome{
		capacity(t, policies, nil, full, allowed(50, 30*time.Second, time.Minute)),
		capacity(t, policies, []string{"uploads"}, full, allowed(50, 30*time.Second, time.Minute)),
	} {
		w.Write(h, o)
		if got := testing.AllocsPerRun(100, func() { clear(h); w.Write(h, o) }); got > 2 {
			t.Errorf("status %d: %v allocations", o.Status(), got)
		}
	}
}
