package nethttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// A client asks how much it has left. The two routes have rules of their own.
func ExampleLimiter_Quota() {
	address := keyfuncs.Address(keyfuncs.Peer)
	on := func(path string) func(*http.Request) bool {
		return func(r *http.Request) bool { return r.URL.Path == path }
	}
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		{Name: "search", Limit: limits.FixedWindow(limits.PerHour(30)), Key: core.When(on("/search"), address)},
		{Name: "items", Limit: limits.FixedWindow(limits.PerHour(500)), Key: core.When(on("/items"), address)},
	}})
	mux := http.NewServeMux()
	mux.Handle("GET /rate_limit", limiter.Quota("GET /search", "GET /items"))
	mux.Handle("/", limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	ask := func(path string) []byte {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.Bytes()
	}
	ask("/search")
	var quota struct {
		Resources map[string]struct{ Limit, Used, Remaining, Reset int64 }
	}
	if err := json.Unmarshal(ask("/rate_limit"), &quota); err != nil {
		fmt.Println(err)
	}
	for _, rule := range []string{"search", "items"} {
		q := quota.Resources[rule]
		fmt.Println(rule, q.Used, "of", q.Limit, "used,", q.Remaining, "left")
	}
	// Output:
	// search 1 of 30 used, 29 left
	// items 0 of 500 used, 500 left
}
