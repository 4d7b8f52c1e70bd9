package nethttp_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// A download counts as one of two at once while the file is prepared, not while a slow
// client reads it.
func ExampleDetach() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "downloads", Limit: limits.Concurrent(2), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, ok := nethttp.Detach(r.Context())
		if ok {
			defer end(core.Result{Panicked: true}) // does nothing after the call below
		}
		file := "prepared" // the costly part
		before := limiter.State().Held
		if ok {
			end(core.Result{Status: http.StatusOK})
		}
		after := limiter.State().Held
		fmt.Fprintln(w, file, before, after)
	}))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Print(w.Body)
	// Output: prepared 1 0
}

// A chat is charged 100 tokens, and at its end what the model has really used. ObserveEnd
// sees both.
func ExampleSpend() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:      "tokens",
			Limit:     limits.SlidingWindow(limits.PerMinute(1000)),
			Key:       keyfuncs.Address(keyfuncs.Peer),
			Cost:      func(*http.Request) int64 { return 100 },
			FinalCost: core.SpentCost,
		}},
		Observer: core.ObserverFuncs[*http.Request]{
			OnEnd: func(s limits.Settlement) { fmt.Println(s.Rule, s.Taken, s.Final) },
		},
	})
	handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, tokens := range []int64{12, 30, 9} { // while it streams
			fmt.Fprintln(w, "some words")
			nethttp.Spend(r.Context(), "tokens", tokens)
		}
	}))
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/chat", nil))
	// Output: tokens 100 51
}

// Only log-ins that fail count.
func ExampleConfig_observeEnd() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:      "failures",
			Limit:     limits.SlidingLog(limits.PerMinute(5)),
			Key:       keyfuncs.Address(keyfuncs.Peer),
			FinalCost: core.OnStatus(func(status int) bool { return status == http.StatusUnauthorized }),
		}},
		Observer: core.ObserverFuncs[*http.Request]{
			OnEnd: func(s limits.Settlement) { fmt.Println(s.Rule, "charged", s.Taken, "finally", s.Final) },
		},
	})
	login := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"right", "wrong"} {
		login.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/login?password="+password, nil))
	}
	// Output:
	// failures charged 1 finally 0
	// failures charged 1 finally 1
}

// Whoever decides without Handler ends the request.
func ExampleControls_State_held() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "jobs", Limit: limits.Concurrent(3), Key: keyfuncs.Constant[*http.Request]("everybody"),
	}}})
	o := limiter.Decide(httptest.NewRequest("GET", "/", nil))
	units := limiter.State().Held
	fmt.Println(units)
	o.End(core.Result{Status: http.StatusOK})
	units = limiter.State().Held
	fmt.Println(units)
	// Output:
	// 1
	// 0
}

// A preflight passes without a decision, so that no browser shows a broken page.
func ExampleControls_State_preflights() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name: "everybody", Limit: limits.FixedWindow(limits.PerDay(1)),
			Key: keyfuncs.Constant[*http.Request]("everybody"),
		}},
		SkipPreflight: true,
	})
	r := httptest.NewRequest("OPTIONS", "/", nil)
	r.Header.Set("Origin", "https://example.com")
	r.Header.Set("Access-Control-Request-Method", "POST")
	limiter.Handler(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), r)
	fmt.Println(limiter.State().Preflights)
	// Output: 1
}

func ExampleControls_State_queue() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "in-turn", Limit: limits.LeakyQueue(limits.PerSecond(10), 20),
		Key: keyfuncs.Constant[*http.Request]("everybody"),
	}}})
	s := limiter.State()
	fmt.Println(s.Waiting, "wait,", s.QueueFull, "found no room,", s.QueueLeft, "left")
	// Output: 0 wait, 0 found no room, 0 left
}
