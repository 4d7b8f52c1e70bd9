package headers_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

// The fields of a denial are written again if the next denial says the same. Each header must be the
// one of a writer that has written nothing before.
func TestFieldsAreWrittenAgainOnlyIfTheySayTheSame(t *testing.T) {
	other := published{Name: "default", Limit: limits.SlidingWindow(limits.PerMinute(10))}
	slots := published{Name: "slots", Limit: limits.Concurrent(3)}
	daily := published{Name: "daily", Limit: limits.Calendar(100, limits.Day)}
	never := denied(0, limits.Never, time.Minute)
	longer := denied(0, 30*time.Second, time.Minute)
	longer.RetryAfter = 40 * time.Second
	held := denied(0, time.Second, 0)
	held.EffectiveWindow = limits.Never
	fallback := denied(0, 30*time.Second, time.Minute)
	fallback.Source = limits.SourceFallback
	keyed := func(key string) *core.Outcome {
		return decidedFor(t, key, rulesOf(perMinute), denied(0, 30*time.Second, time.Minute))
	}
	costly := rulesOf(perMinute)
	costly[0].Cost = func(string) int64 { return 7 }
	shadow, capacity, hidden := perMinute, perMinute, perMinute
	shadow.Mode, capacity.DenyAs503, hidden.Hidden = core.Shadow, true, true
	for _, policies := range [][]published{{perMinute}, {slots}, {daily}, {perMinute, perHour}} {
		outcomes := []*core.Outcome{
			decided(t, policies, denied(0, 30*time.Second, time.Minute), denied(0, 30*time.Second, time.Minute)),
			decided(t, policies, denied(0, 30*time.Second, time.Minute), denied(0, 31*time.Second, time.Minute)),
			decided(t, policies, denied(0, 30*time.Second-time.Microsecond, time.Minute), allowed(1, 1, 1)),
			decided(t, policies, denied(0, 30*time.Second+time.Microsecond, time.Minute), allowed(2, 1, 1)),
			decided(t, policies, denied(3, 30*time.Second, time.Minute), allowed(1, 1, 1)),
			decided(t, policies, denied(0, time.Second, time.Minute), allowed(1, 1, 1)),
			decided(t, policies, denied(3, 30*time.Second, time.Hour), allowed(1, 1, 1)),
			decided(t, policies, allowed(50, 30*time.Second, time.Minute), allowed(1, 1, 1)),
			decided(t, policies, never, never), decided(t, policies, longer, longer),
			decided(t, policies, held, held), decided(t, policies, fallback, fallback),
			keyed("a"), keyed("b"),
			decidedFor(t, "a", costly, denied(0, 30*time.Second, time.Minute)),
			decided(t, []published{other}, denied(0, 30*time.Second, time.Minute)),
			decided(t, []published{shadow}, denied(0, 30*time.Second, time.Minute)),
			decided(t, []published{capacity}, denied(0, 30*time.Second, time.Minute)),
			decided(t, []published{hidden}, denied(0, 30*time.Second, time.Minute)),
		}
		for name, options := range map[string]headers.Options{
			"defaults": {}, "on denial": {Show: headers.OnDenial}, "omit": {Show: headers.Omit},
			"window": {RetryAfter: headers.Window}, "paced": {CapPace: true}, "cost": {CostParameter: "c"},
			"at most": {MaxRetryAfter: 35 * time.Second},
			"key":     {PartitionKey: func(key string) []byte { return []byte(key) }},
			"GitHub":  {Formats: []headers.Format{headers.IETF, headers.GitHub}},
		} {
			remembers := writer(t, options, policies...)
			for j, second := range outcomes {
				for _, before := range []http.Header{
					{}, {"X-Request-Id": {"7"}}, {"Retry-After": {"99"}}, {"Ratelimit": {`"outer";r=1;t=1`}},
					{"Ratelimit-Policy": {`"outer";q=1;w=1`}},
				} {
					want := before.Clone()
					writer(t, options, policies...).Write(want, second)
					for i, first := range outcomes {
						got := before.Clone()
						remembers.Write(http.Header{}, first)
						remembers.Write(got, second)
						if !maps.EqualFunc(want, got, slices.Equal) {
							diff := cmp.Diff(want, got)
							t.Fatalf("%s, %s: outcome %d after %d, header %v (-want +got):\n%s",
								policies[0].Name, name, j, i, before, diff)
						}
					}
				}
			}
		}
	}
}

// Each value is a slice of its answer alone.
func TestAChangedHeaderChangesNoLaterAnswer(t *testing.T) {
	policies := []published{perMinute}
	w := writer(t, headers.Options{}, policies...)
	o := decided(t, policies, denied(0, 30*time.Second, time.Minute))
	want := http.Header{}
	w.Write(want, o)
	want = maps.Clone(want)
	for name, lines := range want {
		want[name] = []string{lines[0]}
	}
	for range 3 {
		h := http.Header{}
		w.Write(h, o)
		if diff := cmp.Diff(want, h); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
		for name := range h {
			h.Add(name, "more")
			h[name][0] = "changed"
		}
	}
	if h := (http.Header{}); testing.AllocsPerRun(100, func() { clear(h); w.Write(h, o) }) > 2 {
		t.Error("it allocates more than its text and its lines")
	}
}
