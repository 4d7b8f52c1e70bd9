package framework_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// These tests are here since go.mod of chimw asks for a chi without ClientIPFrom middlewares.

// oneADay is a router of chi that allows each key one request.
func oneADay(
	key func(*http.Request) (string, error), before ...func(http.Handler) http.Handler,
) http.Handler {
	limiter := chimw.MustNew(chimw.Config{
		Rules: []chimw.Rule{{Name: "test", Limit: limits.FixedWindow(limits.PerDay(1)), Key: key}},
	})
	r := chi.NewRouter()
	r.Use(append(before, limiter.Handler)...)
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	return r
}

func want(t *testing.T, h http.Handler, status int, fields ...string) {
	t.Helper()
	r := httptest.NewRequest("GET", "/", nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != status {
		t.Errorf("%v: status %d, want %d; fields %v", fields, w.Code, status, w.Header())
	}
}

func TestChisClientAddressIsUsedOnlyIfAskedFor(t *testing.T) {
	forged := []string{
		"X-Real-IP: 198.51.100.1", "X-Forwarded-For: 198.51.100.1", "True-Client-IP: 198.51.100.1",
	}
	fromHeader := middleware.ClientIPFromHeader("X-Real-IP")

	h := oneADay(keyfuncs.Address(keyfuncs.Peer), fromHeader)
	want(t, h, 200)
	want(t, h, 429, forged...)

	clientIP := keyfuncs.Address(chimw.ClientIP(middleware.GetClientIPAddr))
	h = oneADay(clientIP, fromHeader)
	want(t, h, 200, "X-Real-IP: 198.51.100.1")
	want(t, h, 429, "X-Real-IP: ::ffff:198.51.100.1")
	want(t, h, 200, "X-Real-IP: 2001:db8::1")
	want(t, h, 429, "X-Real-IP: 2001:db8::2") // one /64
	want(t, h, 503)

	want(t, oneADay(clientIP), 503, forged...) // without the middleware

	h = oneADay(clientIP, middleware.ClientIPFromXFF("192.0.2.0/24"))
	want(t, h, 200, "X-Forwarded-For: 198.51.100.1, 203.0.113.7")
	want(t, h, 429, "X-Forwarded-For: 198.51.100.2, 203.0.113.7") // the left address is forged
}

// The limiter of docs/migrating.md, section "RealIP before httprate", where RealIP was in front of
// httprate and has not been removed.
func TestBehindChisRealIPNobodyIsTakenForAnother(t *testing.T) {
	//lint:ignore SA1019 deprecated, and in use
	h := oneADay(keyfuncs.Address(keyfuncs.Peer), middleware.RealIP)
	for _, header := range []string{"X-Real-IP", "X-Forwarded-For", "True-Client-IP"} {
		for _, address := range []string{"198.51.100.1", "2001:db8::1"} {
			want(t, h, 503, header+": "+address)
		}
	}
	want(t, h, 200)
}
