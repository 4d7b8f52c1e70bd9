package nethttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// A limit is raised while the program runs. What is used stays used.
func ExampleControls_Replace() {
	perClient := func(n int64) []nethttp.Rule {
		return []nethttp.Rule{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(n)), Key: keyfuncs.Address(keyfuncs.Peer)},
		}
	}
	limiter := nethttp.MustNew(nethttp.Config{Rules: perClient(1)})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	ask()
	ask()
	if err := limiter.Replace(perClient(2)); err != nil {
		fmt.Println("the old rules stay:", err)
	}
	ask()
	ask()
	// Output:
	// 200 "per-client";q=1;w=86400
	// 429 "per-client";q=1;w=86400
	// 200 "per-client";q=2;w=86400
	// 429 "per-client";q=2;w=86400
}

// A rule that denies the wrong people is switched to a shadow for an hour.
func ExampleControls_Override() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(limiter.State().Rules[0].Mode, w.Code)
	}
	ask()
	ask()
	shadow := core.Shadow
	err := limiter.Override("per-client",
		core.Override{Mode: &shadow, Until: time.Now().Add(time.Hour), Why: "a partner is behind one address"})
	if err != nil {
		fmt.Println(err)
	}
	ask()
	if err := limiter.Override("per-client", core.Override{}); err != nil { // ends it before its time
		fmt.Println(err)
	}
	ask()
	// Output:
	// enforce 200
	// enforce 429
	// shadow 200
	// enforce 429
}

// One client may do more for a day. The others keep their limit.
func ExampleControls_OverrideKey() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	err := limiter.OverrideKey("per-client", "192.0.2.1",
		core.Override{Limit: limits.FixedWindow(limits.PerDay(2)), Until: time.Now().Add(24 * time.Hour)})
	if err != nil {
		fmt.Println(err)
	}
	for _, client := range []string{"192.0.2.1:1", "192.0.2.1:1", "192.0.2.2:1", "192.0.2.2:1"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = client
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-client";q=2;w=86400
	// 200 "per-client";q=2;w=86400
	// 200 "per-client";q=1;w=86400
	// 429 "per-client";q=1;w=86400
}

// A program tells which limits of single keys are in force, and ends them.
func ExampleControls_KeyOverrides() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	err := limiter.OverrideKey("per-client", "192.0.2.1",
		core.Override{Limit: limits.FixedWindow(limits.PerDay(2)), Until: time.Now().Add(time.Hour), Why: "ticket 7"})
	if err != nil {
		fmt.Println(err)
	}
	for key, o := range limiter.KeyOverrides("per-client") {
		fmt.Println(o.Limit, o.Why)
		if err := limiter.OverrideKey("per-client", key, core.Override{}); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(len(limiter.KeyOverrides("per-client")))
	// Output:
	// fixed-window 2/1d ticket 7
	// 0
}

// A page shows what a request would get, and the request costs nothing.
func ExampleLimiter_Explain() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(100)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	r := httptest.NewRequest("GET", "/", nil)
	for range 3 {
		limiter.Decide(r)
	}
	o := limiter.Explain(r)
	fmt.Println(o.Verdict(), o.At(0).Rule(), o.At(0).Remaining)
	// Output: allowed per-client 97
}

// A client that was denied by mistake is let in at once.
func ExampleControls_ResetKey() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	ask()
	ask()
	if err := limiter.ResetKey(context.Background(), "per-client", "192.0.2.1"); err != nil {
		fmt.Println(err)
	}
	ask()
	// Output:
	// 200
	// 429
	// 200
}
