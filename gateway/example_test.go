package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func Example() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name:  "per-client",
		Limit: limits.SlidingWindow(limits.PerMinute(1)),
		Key:   keyfuncs.Address(keyfuncs.Peer), // of the original request
	}}})
	check := gateway.MustNew(limiter, []string{"192.0.2.1"}, gateway.Options{DeniedStatus: 403}) // for nginx

	for range 2 {
		r := httptest.NewRequest("GET", "/check", nil) // from 192.0.2.1
		r.Header = http.Header{
			"X-Forwarded-Method": {"GET"}, "X-Forwarded-Host": {"shop.example"},
			"X-Forwarded-Uri": {"/orders"}, "X-Forwarded-For": {"203.0.113.7"},
		}
		w := httptest.NewRecorder()
		check.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 204
	// 403
}

func ExampleNewNames() {
	names, err := gateway.NewNames("X-Quota", "X-Quota-Left", "")
	if err != nil {
		fmt.Println(err) // every mistake, one in a line
		return
	}
	fmt.Println(names.Limit(), names.Remaining(), names.Reset())
	_, err = gateway.NewNames("X-Quota", "x-quota", "Content-Length")
	fmt.Println(err)
	// Output:
	// X-Quota X-Quota-Left RateLimit-Reset
	// gateway: name of the field "remaining": "x-quota" is the name of another one: choose another
	// gateway: name of the field "reset": "Content-Length" has another meaning: choose another, such as X-RateLimit-Limit
}

func ExampleNames_Rename() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(10)), Key: keyfuncs.Address(keyfuncs.Peer),
		}},
		Headers: headers.Options{
			Formats: []headers.Format{headers.Draft6},
			Custom:  gateway.MustNewNames("X-Quota", "X-Quota-Left", "X-Quota-Reset").Rename,
		},
	})
	w := httptest.NewRecorder()
	limiter.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Header().Get("X-Quota"), w.Header().Get("X-Quota-Left"))
	// Output: 10 9
}
