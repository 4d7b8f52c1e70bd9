package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/gateway"
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
