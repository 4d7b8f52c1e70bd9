package keyfuncs_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

func TestInventedMethodsAreOneKey(t *testing.T) {
	for method, want := range map[string]string{
		"GET": "GET", "": "GET", "HEAD": "GET",
		"POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE",
		"OPTIONS": "OPTIONS", "CONNECT": "CONNECT", "TRACE": "TRACE", "QUERY": "QUERY",
		"PROPFIND": "other", "get": "other", "X1": "other", "X2": "other", "other": "other",
	} {
		r := request("")
		r.Method = method
		wantKey(t, keyfuncs.Method, r, want)
	}
}

func TestAHostIsOneKeyInAnyNotation(t *testing.T) {
	for host, want := range map[string]string{
		"api.example": "api.example", "API.Example": "api.example", "api.example.": "api.example",
		"api.example:8080": "api.example", "Api.example.:8080": "api.example", "api.example:": "api.example",
		"203.0.113.7:80": "203.0.113.7", "[2001:DB8::1]:80": "[2001:db8::1]", "[2001:db8::1]": "[2001:db8::1]",
		"": "", ":80": "",
		strings.Repeat("a", 253):             strings.Repeat("a", 253),
		strings.Repeat("A", 253) + ".:65535": strings.Repeat("a", 253),
		strings.Repeat("a", 254):             "*", strings.Repeat("b", 254): "*", strings.Repeat("a", 1<<20): "*",
	} {
		r := request("")
		r.Host = host
		wantKey(t, keyfuncs.Host, r, want)
	}
}

func TestAPathIsAKeyOfBoundedLength(t *testing.T) {
	wantKey(t, keyfuncs.Path, httptest.NewRequest("GET", "/a%20b?c=d", nil), "/a b")
	long := "/" + strings.Repeat("a", 10_000)
	wantKey(t, keyfuncs.Path, httptest.NewRequest("GET", long, nil), "sha256:"+sha(long))
	wantKey(t, keyfuncs.Path, &http.Request{}, "")
}

func TestTheRoutePatternIsKnownInsideTheMux(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(_ http.ResponseWriter, r *http.Request) {
		wantKey(t, keyfuncs.RoutePattern, r, "GET /items/{id}")
	})
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/items/1", nil))
	_, err := keyfuncs.RoutePattern(httptest.NewRequest("GET", "/items/1", nil))
	if !errors.Is(err, keyfuncs.ErrTooEarly) || errors.Is(err, core.ErrAbsent) {
		t.Errorf("outside the mux: %v", err)
	}
}

func TestAMuxPatternOutsideStripPrefixIsAMistake(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	key := keyfuncs.MuxPattern(mux)
	for _, target := range []string{"/api/items/1", "/api/v1/items/1"} {
		if got, err := key(httptest.NewRequest("GET", target, nil)); !errors.Is(err, keyfuncs.ErrTooEarly) {
			t.Errorf("%s: %q, %v", target, got, err)
		}
	}
	wantKey(t, key, httptest.NewRequest("GET", "/nowhere/", nil), "")
	wantKey(t, key, httptest.NewRequest("GET", strings.Repeat("/a", 10_000)+"/items/1", nil), "")
	inside := http.StripPrefix("/api", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		wantKey(t, key, r, "GET /items/{id}")
	}))
	inside.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/items/1", nil))
	wantKey(t, key, httptest.NewRequest("GET", "/x/items/1", nil), "") // it is in its place, so this is a 404
}

func TestTheMuxPatternIsKnownOutsideTheMux(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/static/", func(http.ResponseWriter, *http.Request) {})
	key := keyfuncs.MuxPattern(mux)
	for target, want := range map[string]string{
		"/items/1": "GET /items/{id}", "/items/2": "GET /items/{id}", "/static/a/b": "/static/",
		"/nowhere": "", "/nowhere/else": "", "/items/1/2": "",
	} {
		r := httptest.NewRequest("GET", target, nil)
		wantKey(t, key, r, want)
		if r.Pattern != "" {
			t.Errorf("%s: the request has the pattern %q", target, r.Pattern)
		}
	}
}

// Random paths must not be fresh limits.
func TestRequestsThatMatchNoRouteCountTogetherByAddress(t *testing.T) {
	key := keyfuncs.Join(keyfuncs.MuxPattern(http.NewServeMux()), keyfuncs.Address(keyfuncs.Peer))
	for _, path := range []string{"/a", "/b", "/c/d"} {
		r := request("203.0.113.7:1")
		r.URL.Path = path
		wantKey(t, key, r, "0:11:203.0.113.7")
	}
}

func TestABodyIsNeverRead(t *testing.T) {
	mux := http.NewServeMux()
	keys := []key{
		keyfuncs.Header("X-Tenant"), keyfuncs.APIKey("X-API-Key"), keyfuncs.BearerToken, keyfuncs.BasicAuthUser,
		keyfuncs.CommonName, keyfuncs.SPIFFEID,
		keyfuncs.Cookie("sid"), keyfuncs.FromContext(user), keyfuncs.Method, keyfuncs.Host, keyfuncs.Path,
		keyfuncs.RoutePattern, keyfuncs.MuxPattern(mux), keyfuncs.Constant[*http.Request]("x"),
		keyfuncs.Address(keyfuncs.Peer), keyfuncs.Address(keyfuncs.MustTrustedProxies("192.0.2.1")),
		keyfuncs.Address(keyfuncs.MustForwarded("192.0.2.1")), keyfuncs.Address(keyfuncs.MustProxyCount(1)),
		keyfuncs.Address(keyfuncs.MustSingleHeader("X-Real-IP")),
	}
	body := bytes.NewBufferString("user=alice")
	r := httptest.NewRequest("POST", "/", body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, key := range keys {
		key(r)
	}
	if r.FormValue("user") != "alice" {
		t.Error("the handler's body is gone")
	}
}
