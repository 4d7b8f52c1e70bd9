package descriptors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/descriptors"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

const flying = `
descriptors:
  - key: user
    rate_limit: {algorithm: concurrent 2, hold_time: 10m, holder: id}
    descriptors:
      - {key: model, rate_limit: {algorithm: concurrent 1, hold_time: 1m}}
  - key: both
    rate_limits:
      - {unit: minute, requests_per_unit: 3}
      - {algorithm: concurrent 1, hold_time: 1m, holder: id}
  - {key: rate, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: shadow, shadow_mode: true, rate_limit: {algorithm: concurrent 1, hold_time: 1m, holder: id}}
`

// Steps of a case follow each other.
var flights = []example{
	{"a request takes, and its end gives back", flying, []string{
		"user=a id=1", "ok: 1 of 2/unknown", "user=a id=2", "ok: 0 of 2/unknown", "user=a id=3", "OVER: 0 of 2/unknown",
		"user=b id=4", "ok: 1 of 2/unknown", "user=a id=1 -1", "ok: -", "user=a id=3", "ok: 0 of 2/unknown",
	}},
	{"the end of a denied request gives nothing back", flying, []string{
		"user=a id=1 +2", "ok: 0 of 2/unknown", "user=a id=3", "OVER: 0 of 2/unknown", "user=a id=3 -1", "ok: -",
		"user=a id=4", "OVER: 0 of 2/unknown",
	}},
	{"an end that comes twice gives nothing back", flying, []string{
		"user=a id=1", "ok: 1 of 2/unknown", "user=a id=2", "ok: 0 of 2/unknown",
		"user=a id=1 -1", "ok: -", "user=a id=1 -1", "ok: -", "user=a id=1 -7", "ok: -", "user=a +0", "ok: 1 of 2/unknown",
	}},
	{"a lost end comes by itself", flying, []string{
		"user=a id=1", "ok: 1 of 2/unknown", "wait 9m", "", "user=a id=2", "ok: 0 of 2/unknown", "wait 59s", "",
		"user=a id=3", "OVER: 0 of 2/unknown", "wait 1s", "", "user=a id=3", "ok: 0 of 2/unknown",
		"user=a id=1 -1", "ok: -", "user=a +0", "OVER: 0 of 2/unknown", "wait 10m", "", "user=a +0", "ok: 2 of 2/unknown",
	}},
	{"a request without its holder is held for the hold time", flying, []string{
		"user=a", "ok: 1 of 2/unknown", "user=a -1", "ok: -", "user=a +0", "ok: 1 of 2/unknown",
		"wait 10m", "", "user=a +0", "ok: 2 of 2/unknown",
	}},
	{"without a holder counts alone decide", flying, []string{
		"user=a model=m -1", "ok: -", "user=a model=m", "ok: 0 of 1/unknown", "user=a model=m", "OVER: 0 of 1/unknown",
		"user=a model=m -1", "ok: -", "user=a model=m -1", "ok: -", "user=a model=m", "ok: 0 of 1/unknown",
		"wait 60s", "", "user=a model=m", "ok: 0 of 1/unknown",
	}},
	{"the end returns no unit of a rate", flying, []string{
		"both=a id=1", "ok: 0 of 1/unknown", "both=a id=1 -1", "ok: -", "both=a id=2", "ok: 0 of 1/unknown",
		"both=a id=2 -1", "ok: -", "both=a id=3", "ok: 0 of 3/minute", "both=a id=3 -1", "ok: -",
		"both=a id=4", "OVER: 0 of 3/minute",
	}},
	{"another descriptor that denies leaves its end to the proxy", flying, []string{
		"rate=a", "ok: 0 of 1/minute", "user=a id=1 ; rate=a", "OVER: ok 1 of 2/unknown, OVER 0 of 1/minute",
		"user=a id=1 -1", "ok: -", "user=a +0", "ok: 2 of 2/unknown",
	}},
	{"all or nothing takes nothing for a request that is denied", "all_or_nothing: true" + flying, []string{
		"rate=a", "ok: 0 of 1/minute", "user=a id=1 ; rate=a", "OVER: ok 2 of 2/unknown, OVER 0 of 1/minute",
		"user=a +0", "ok: 2 of 2/unknown", "user=a id=1", "ok: 1 of 2/unknown", "user=a id=1 -1", "ok: -",
	}},
	{"a shadow denies nobody and takes what fits", flying, []string{
		"shadow=a id=1", "ok: 0 of 1/unknown", "shadow=a id=2", "ok: 0 of 1/unknown shadow", "shadow=a id=2 -1", "ok: -",
		"shadow=a id=3", "ok: 0 of 1/unknown shadow", "shadow=a id=1 -1", "ok: -", "shadow=a id=3", "ok: 0 of 1/unknown",
	}},
	{"no hits look", flying, []string{
		"user=a id=1 +2", "ok: 0 of 2/unknown", "user=a id=2 +0", "OVER: 0 of 2/unknown", "user=a id=1 -0", "ok: -",
		"user=a id=1 -1", "ok: -", "user=a id=2 +0", "ok: 1 of 2/unknown",
	}},
	{"an end beside a request", flying, []string{
		"user=a id=1 +2", "ok: 0 of 2/unknown", "user=a id=2 ; user=a id=1 -1", "ok: 0 of 2/unknown, -",
	}},
}

func TestRequestsInFlightAreCounted(t *testing.T) {
	runInMemory(t, flights)
}

func TestRequestsInFlightAreCountedInRedis(t *testing.T) {
	runInRedis(t, flights)
}

// The end of a request may reach another process than its beginning.
func TestProcessesReturnUnitsOfEachOther(t *testing.T) {
	testrun.NeedsMiniredis(t)
	synctest.Test(t, func(t *testing.T) {
		backend := startRedis(t)
		one, other := newService(t, flying, backend), newService(t, flying, backend)
		for i := range 6 {
			id := fmt.Sprint(i)
			if got := said(one.Decide(t.Context(), ask(t, "user=a +2 id="+id))); got != "ok: 0 of 2/unknown" {
				t.Fatal(got)
			}
			if got := said(other.Decide(t.Context(), ask(t, "user=a -2 id="+id))); got != "ok: -" {
				t.Fatal(got)
			}
		}
		backend.end()
	})
}

// leaving is a backend whose caller leaves while it decides.
type leaving struct {
	backends.Backend
	leave func()
}

func (l *leaving) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	err := l.Backend.Take(ctx, charges, out)
	l.leave()
	return err
}

func (l *leaving) Unwrap() backends.Backend { return l.Backend }

// A proxy that has left during its question sends no end.
func TestAProxyThatLeavesHoldsNothing(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	service := newService(t, flying, &leaving{memory.MustNew(memory.Options{}), leave})
	service.Decide(ctx, ask(t, "user=a id=1"))
	if got := said(service.Decide(t.Context(), ask(t, "user=a +0"))); got != "ok: 2 of 2/unknown" {
		t.Error(got)
	}
}

// The fallback is told what the backend has lent once the proxy has the answer. A proxy that leaves
// takes no units of others from it, even without a holder.
func TestAProxyThatLeavesTakesNothingFromTheFallback(t *testing.T) {
	backend := &distant{Memory: memory.MustNew(memory.Options{})}
	proxy := &leaving{backend, func() {}}
	file := strings.Replace(flying, "concurrent 1, hold_time: 1m}}", "concurrent 2, hold_time: 1m}}", 1)
	service := newService(t, file, proxy)
	service.Decide(t.Context(), ask(t, "user=a model=m"))
	ctx, leave := context.WithCancel(t.Context())
	proxy.leave = leave
	service.Decide(ctx, ask(t, "user=a model=m"))
	backend.fails = true
	if got := said(service.Decide(t.Context(), ask(t, "user=a model=m +0"))); got != "ok: 1 of 2/unknown" {
		t.Error(got)
	}
}

// When the backend fails, the fallback knows what is in flight.
func TestAFallbackKnowsWhatIsInFlight(t *testing.T) {
	testrun.NeedsMiniredis(t)
	synctest.Test(t, func(t *testing.T) {
		redis := startRedis(t)
		backend := &failing{Backend: redis}
		service := newService(t, flying, backend)
		for i, step := range [][2]string{
			{"user=a id=1", "ok: 1 of 2/unknown"}, {"user=a id=2", "ok: 0 of 2/unknown"}, {"user=a id=1 -1", "ok: -"},
			{"down", ""}, {"user=a +0", "ok: 1 of 2/unknown"}, {"user=a id=3", "ok: 0 of 2/unknown"},
			{"user=a id=2 -1", "ok: -"}, {"user=a id=3 -1", "ok: -"}, {"user=a +0", "ok: 2 of 2/unknown"},
			{"up", ""}, {"user=a +0", "ok: 2 of 2/unknown"},
		} {
			switch step[0] {
			case "down", "up":
				backend.down = step[0] == "down"
				continue
			}
			if got := said(service.Decide(t.Context(), ask(t, step[0]))); got != step[1] {
				t.Errorf("step %d, %q:\ngot  %s\nwant %s", i, step[0], got, step[1])
			}
		}
		redis.end()
	})
}

func TestABackendThatLendsNothingIsNoBackendOfFlights(t *testing.T) {
	backend := struct{ backends.Backend }{memory.MustNew(memory.Options{})}
	a, err := newService(t, flying, backend).Decide(t.Context(), ask(t, "user=a id=1"))
	if got := said(a, err); got != "ok: 1 of 2/unknown" || a.Source != descriptors.Fallback {
		t.Errorf("%s by %v", got, a.Source)
	}
}

func TestMistakesOfLimitsInFlight(t *testing.T) {
	for text, want := range map[string]string{
		"{algorithm: concurrent 5}":                                        "hold_time is required beside concurrent",
		"{algorithm: concurrent 5, hold_time: 1}":                          "1s to 24h, such as 10m (got \"1\")",
		"{algorithm: concurrent 5, hold_time: 25h}":                        "hold_time must be 1s to 24h",
		"{algorithm: concurrent 5, hold_time: 10m, holder: ''}":            "holder must be a text",
		"{algorithm: concurrent 500000, hold_time: 10m}":                   "algorithm:",
		"{algorithm: 5/minute, hold_time: 10m}":                            "hold_time is for limits in flight",
		"{unit: minute, requests_per_unit: 5, holder: id}":                 "holder is for limits in flight",
		"{algorithm: concurrent 5, hold_time: 10m, requests_per_unit: 20}": "algorithm stands in place of unit",
	} {
		_, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte(
			"domain: d\ndescriptors:\n  - {key: k, rate_limit: " + text + "}\n")})
		if err == nil || !strings.HasPrefix(err.Error(), "d.yaml:3:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	_, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte(`domain: d
descriptors:
  - key: k
    rate_limit: {algorithm: concurrent 5, hold_time: 10m, holder: id}
    descriptors:
      - {key: id, rate_limit: {unit: day, requests_per_unit: 1}}
`)})
	if err == nil || !strings.Contains(err.Error(), `d.yaml:6:7: rule "k": "id" is the holder of the limit above`) {
		t.Error(err)
	}
}

func TestALimitInFlightIsExplained(t *testing.T) {
	config, err := descriptors.Parse(descriptors.File{Name: "d.yaml", Text: []byte("domain: d" + flying)})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"user=a", "user=a id=1"} {
		e, ok := config.Explain("d", ask(t, text).Descriptors[0].Entries)
		if want := "concurrent 2, each held by its id for 10m at most"; !ok || e.Limits[0] != want {
			t.Errorf("%v, want %s", e, want)
		}
	}
}

// Units without a holder end one by one: a lost end does not stay for as long as others come.
func TestALostEndWithoutAHolderEndsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := strings.Replace(flying, "concurrent 1, hold_time: 1m}}", "concurrent 3, hold_time: 1m}}", 1)
		service := newService(t, file, nil)
		decide := func(text string) string { return said(service.Decide(t.Context(), ask(t, text))) }
		decide("user=a model=m") // its end is lost
		for range 12 {
			if got := decide("user=a model=m +2"); got != "ok: 0 of 3/unknown" && got != "ok: 1 of 3/unknown" {
				t.Fatal(got)
			}
			time.Sleep(6 * time.Second)
			decide("user=a model=m -2")
		}
		if got := decide("user=a model=m +0"); got != "ok: 3 of 3/unknown" {
			t.Error(got)
		}
	})
}
