package gateway_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// A check that is decided has the method, host and path that the fields say, and an address is the last hop.
func FuzzFields(f *testing.F) {
	f.Add("GET", "", "shop.example", "/a?b", "", "", "203.0.113.7, 198.51.100.1")
	f.Add("GET", "GET", "a.example:80", "", "/a", "http://a.example:80/a", "[2001:db8::1]:80")
	f.Fuzz(func(t *testing.T, method, method2, host, uri, uri2, url, hops string) {
		var seen *http.Request
		limiter := nethttp.MustNew(nethttp.Config{Logger: slog.New(slog.DiscardHandler), Rules: []nethttp.Rule{{
			Name: "one", Limit: limits.SlidingWindow(limits.PerHour(9)),
			Key: func(r *http.Request) (string, error) {
				seen = r
				return keyfuncs.Address(keyfuncs.Peer)(r)
			},
		}}})
		check := gateway.MustNew(limiter, []string{"192.0.2.1"}, gateway.Options{Logger: slog.New(slog.DiscardHandler)})
		r := httptest.NewRequest("GET", "/check", nil)
		for name, value := range map[string]string{
			"X-Forwarded-Method": method, "X-Original-Method": method2, "X-Forwarded-Host": host,
			"X-Forwarded-Uri": uri, "X-Original-Uri": uri2, "X-Original-Url": url, "X-Forwarded-For": hops,
		} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		w := httptest.NewRecorder()
		check.ServeHTTP(w, r)
		if w.Code != 204 {
			if w.Code != 503 {
				t.Errorf("%d", w.Code)
			}
			return
		}
		said := func(value string, fields ...string) bool {
			for _, field := range fields {
				if strings.HasSuffix(strings.TrimSpace(field), value) {
					return true
				}
			}
			return false
		}
		if !said(seen.Method, method, method2) || !said(seen.RequestURI, uri, uri2, url) || seen.Host == "" ||
			seen.URL.Host != "" {
			t.Errorf("%s %s %s, %q", seen.Method, seen.Host, seen.RequestURI, r.Header)
		}
		if !strings.HasSuffix(seen.RemoteAddr, ":0") ||
			strings.Contains(seen.RemoteAddr, "192.0.2.1:") && !strings.Contains(hops, "192.0.2.1") {
			t.Errorf("%s of %q", seen.RemoteAddr, hops)
		}
	})
}
