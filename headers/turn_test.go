package headers_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// third returns the outcome of a third request for one a minute, which is promised the turn after
// that of the second, two minutes from now. A wide rule allows it.
func third(t *testing.T) (o core.Outcome, rules []core.Rule[string]) {
	rules = rulesOf(published{Name: "narrow", Limit: limits.TokenBucket(limits.PerMinute(1), 1)},
		published{Name: "wide", Limit: limits.TokenBucket(limits.PerMinute(60), 60)})
	l := core.MustNew(core.Config[string]{Rules: rules, MaxPromise: time.Hour})
	for range 3 {
		o = l.Decide(t.Context(), "client")
	}
	if o.Turn() != 2*time.Minute || o.RetryAfter() != time.Minute {
		t.Fatalf("turn %v, least wait %v", o.Turn(), o.RetryAfter())
	}
	return o, rules
}

func TestATurnIsToldInAllFormats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, rules := third(t)
		epoch := "946684920" // two minutes after the bubble begins
		for _, tt := range []struct {
			options headers.Options
			want    []string
		}{
			{headers.Options{}, []string{`RateLimit: "narrow";r=0;t=120, "wide";r=59;t=59`}},
			{headers.Options{RetryAfter: headers.Window}, []string{`RateLimit: "narrow";r=0;t=120, "wide";r=59;t=59`}},
			{headers.Options{Formats: []headers.Format{headers.Draft7}}, []string{"RateLimit: limit=1, remaining=0, reset=120"}},
			{headers.Options{Formats: []headers.Format{headers.Draft6}}, []string{"RateLimit-Reset: 120"}},
			{headers.Options{Formats: []headers.Format{headers.GitHub}}, []string{"X-RateLimit-Reset: " + epoch}},
			{headers.Options{Formats: []headers.Format{headers.DeltaSeconds}}, []string{"X-RateLimit-Reset: 120"}},
			{headers.Options{Formats: []headers.Format{headers.Discord}}, []string{"X-RateLimit-Reset-After: 120.000"}},
			{headers.Options{Formats: []headers.Format{headers.OpenAI}}, []string{"Retry-After-Ms: 120000"}},
		} {
			h := http.Header{}
			tt.options.MaxPromise = time.Hour
			headers.MustNew(tt.options, rules).Write(h, &o)
			for _, field := range append(tt.want, "Retry-After: 120") {
				if !has(h, field) {
					t.Errorf("%v: no %s in %v", tt.options.Formats, field, h)
				}
			}
		}
	})
}

// A window is told if it is longer than the turn, and nothing is added to it.
func TestAWindowLongerThanTheTurnIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules := rulesOf(published{Name: "hourly", Limit: limits.SlidingLog(limits.PerHour(60))})
		l := core.MustNew(core.Config[string]{Rules: rules, MaxPromise: 2 * time.Hour})
		for range 60 {
			l.Decide(t.Context(), "client")
		}
		time.Sleep(58 * time.Minute)
		l.Decide(t.Context(), "client")
		o := l.Decide(t.Context(), "client")
		for options, want := range map[headers.RetryAfter]string{headers.LeastWait: "180", headers.Window: "3600"} {
			h := http.Header{}
			headers.MustNew(headers.Options{RetryAfter: options, MaxPromise: 2 * time.Hour}, rules).Write(h, &o)
			if got := h.Get("Retry-After"); got != want {
				t.Errorf("%v: Retry-After %s, want %s", options, got, want)
			}
		}
	})
}

// has reports whether h has a field, written as "Name: value".
func has(h http.Header, field string) bool {
	for name, values := range fields(field) {
		return h.Get(name) == values[0]
	}
	return false
}
