package parity

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

const shadowField = "X-Shadow-Denied"

// shadowsOf returns shadow rules that deny, delay and fail in every way.
func shadowsOf[R any]() []core.Rule[R] {
	shadow := func(name string, change func(*core.Rule[R])) core.Rule[R] {
		rule := daily[R](name, 1)
		rule.Mode = core.Shadow
		change(&rule)
		return rule
	}
	return []core.Rule[R]{
		shadow("tight", func(*core.Rule[R]) {}),
		shadow("slow", func(r *core.Rule[R]) {
			r.Limit = limits.FixedWindow(limits.Per(1, 300*24*time.Hour))
		}),
		shadow("full", func(r *core.Rule[R]) { r.DenyAs503 = true }),
		shadow("dear", func(r *core.Rule[R]) { r.Cost = func(R) int64 { return 99 } }),
		shadow("slots", func(r *core.Rule[R]) {
			r.Limit, r.Cost = limits.Concurrent(1),
				func(R) int64 { return 2 }
		}),
		shadow("no key", func(r *core.Rule[R]) {
			r.Key = func(R) (string, error) { return "", errors.New("no key") }
		}),
		shadow("no cost", func(r *core.Rule[R]) { r.Cost = func(R) int64 { return -1 } }),
		shadow("panics", func(r *core.Rule[R]) { r.Cost = func(R) int64 { panic("boom") } }),
		shadow("no limit", func(r *core.Rule[R]) {
			r.Limit, r.OnFailure = limits.Limit{}, core.FailClosed
			r.LimitFor = func(R, string) (limits.Limit, error) {
				return limits.Limit{}, errors.New("no limit")
			}
		}),
	}
}

// testShadows checks that the answers are the same without shadow rules, and with shadow rules
// before and after the others.
func testShadows[R any](t *testing.T, a Adapter[R]) {
	for name, options := range map[string]headers.Options{
		"IETF":      {},
		"Draft7":    {Formats: []headers.Format{headers.Draft7}},
		"many":      {Formats: []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}},
		"Discord":   {Formats: []headers.Format{headers.Discord}},
		"on denial": {Show: headers.OnDenial},
		"never":     {Show: headers.Omit},
		"window":    {RetryAfter: headers.Window},
	} {
		t.Run(name, func(t *testing.T) {
			sameWithShadows(t, a, func() *Config[R] {
				limit := everybody[R](limits.FixedWindow(limits.PerDay(2)))
				limit.Headers = options
				return limit
			})
		})
	}
}

func testShadowsWithoutBackend[R any](t *testing.T, a Adapter[R]) {
	for name, failure := range map[string]core.FailurePolicy{"open": core.FailOpen,
		"closed": core.FailClosed, "fall back": core.FallBack} {
		t.Run(name, func(t *testing.T) {
			sameWithShadows(t, a, func() *Config[R] {
				limit := everybody[R](limits.FixedWindow(limits.PerDay(2)))
				limit.Rules[0].OnFailure = failure
				limit.Fallback, limit.Backend = limit.Backend, down{}
				return limit
			})
		})
	}
}

// sameWithShadows compares the answers of limit with those of limit and shadow rules, with each
// shadow once failing closed.
func sameWithShadows[R any](t *testing.T, a Adapter[R], limit func() *Config[R]) {
	t.Helper()
	answers := func(change func([]core.Rule[R]) []core.Rule[R]) (everything []map[string]any) {
		limit := limit()
		limit.Rules = change(limit.Rules)
		app := a.Serve(t, App[R]{Site: limit})
		for range 4 {
			got := send(t, app, "/hello")
			everything = append(everything,
				map[string]any{"status": got.status, "fields": got.header, "content": got.body})
		}
		return everything
	}
	want := answers(func(rules []core.Rule[R]) []core.Rule[R] { return rules })
	shadows := shadowsOf[R]()
	if !backends.CanSettle(limit().Backend) {
		shadows = slices.DeleteFunc(shadows, func(rule core.Rule[R]) bool { return rule.Name == "slots" })
	}
	for name, change := range map[string]func([]core.Rule[R]) []core.Rule[R]{
		"before": func(rules []core.Rule[R]) []core.Rule[R] { return slices.Concat(shadows, rules) },
		"after":  func(rules []core.Rule[R]) []core.Rule[R] { return append(rules, shadows...) },
		"closed": func(rules []core.Rule[R]) []core.Rule[R] {
			for _, shadow := range shadows {
				shadow.OnFailure = core.FailClosed
				rules = append(rules, shadow)
			}
			return rules
		},
		"open": func(rules []core.Rule[R]) []core.Rule[R] {
			for _, shadow := range shadows {
				shadow.OnFailure = core.FailOpen
				rules = append(rules, shadow)
			}
			return rules
		},
	} {
		if diff := cmp.Diff(want, answers(change)); diff != "" {
			t.Errorf("shadows %s: -without +with:\n%s", name, diff)
		}
	}
}

// testShadowQueue would wait for a day if a shadow delayed requests.
func testShadowQueue[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](limits.LeakyQueue(limits.PerDay(1), 9))
	limit.Rules[0].Mode = core.Shadow
	limit.MaxWaiting = 1
	app := a.Serve(t, App[R]{Site: limit})
	for range 3 {
		if got := send(t, app, "/hello"); got.status != http.StatusOK {
			t.Errorf("%d", got.status)
		}
	}
}

func testModes[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](limits.FixedWindow(limits.PerDay(9)))
	shadow := daily[R]("tight", 1)
	shadow.Mode = core.Shadow
	limit.Rules = append(limit.Rules, shadow)
	limit.OutcomeInContext = true
	app := a.Serve(t, App[R]{Site: limit})
	for _, want := range []string{"8 left; shadow tight primary, allows true",
		"7 left; shadow tight primary, allows false"} {
		if got := send(t, app, "/left"); got.body != want {
			t.Errorf("%q, want %q", got.body, want)
		}
	}
}

func testShadowField[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](limits.FixedWindow(limits.PerDay(2)))
	shadow := daily[R](`a "tight" one`, 1)
	shadow.Mode = core.Shadow
	limit.Rules = append(limit.Rules, shadow)
	limit.Headers.ShadowField = shadowField
	app := a.Serve(t, App[R]{Site: limit})
	for i, want := range []string{"", `"a \"tight\" one"`, `"a \"tight\" one"`} {
		got := send(t, app, "/hello")
		if v := got.header.Get(shadowField); v != want {
			t.Errorf("request %d: %d, %s: %s, want %s", i, got.status, shadowField, v, want)
		}
		if v := got.header.Get("RateLimit"); strings.Contains(v, "tight") {
			t.Errorf("request %d: RateLimit %s", i, v)
		}
	}
}

// testShadowFieldOnce ends a request in the queue after its fields were written.
func testShadowFieldOnce[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](limits.LeakyQueue(limits.PerDay(1), 9))
	shadow := daily[R]("tight", 1)
	shadow.Mode = core.Shadow
	limit.Rules = append(limit.Rules, shadow)
	limit.Headers.ShadowField = shadowField
	ended := make(chan struct{})
	limit.Observer = core.ObserverFuncs[R]{OnDecision: func(_ context.Context, _ R, o core.Outcome) {
		if o.Delay() > 0 {
			close(ended)
		}
	}, Next: limit.Observer}
	app := a.Serve(t, App[R]{Site: limit})
	send(t, app, "/hello")
	w := httptest.NewRecorder()
	app.ServeHTTP(w, httptest.NewRequestWithContext(&deadline{t.Context(), ended}, "GET",
		"/hello", nil))
	if got := w.Header()[shadowField]; w.Code != http.StatusServiceUnavailable || len(got) != 1 ||
		got[0] != `"tight"` {
		t.Errorf("%d, %s: %q", w.Code, shadowField, got)
	}
}
