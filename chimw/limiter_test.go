package chimw_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// perDay is a limiter that allows n requests.
func perDay(n int64, key func(*http.Request) (string, error)) *chimw.Limiter {
	return chimw.MustNew(chimw.Config{
		Rules: []chimw.Rule{{Name: "test", Limit: limits.TokenBucket(limits.PerDay(n), n), Key: key}},
	})
}

var everybody = keyfuncs.Constant[*http.Request]("everybody")

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }

func ask(h http.Handler, method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header.Add(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func want(t *testing.T, h http.Handler, method, path string, status int, fields ...string) {
	t.Helper()
	w := ask(h, method, path, fields...)
	if w.Code != status {
		t.Errorf("%s %s: status %d, want %d; fields %v", method, path, w.Code, status, w.Header())
	}
}

func TestALimiterGoesWhereChisMiddlewareGoes(t *testing.T) {
	for name, build := range map[string]func(r *chi.Mux, limit func(http.Handler) http.Handler){
		"Use": func(r *chi.Mux, limit func(http.Handler) http.Handler) {
			r.Use(limit)
			r.Get("/limited", ok)
		},
		"With": func(r *chi.Mux, limit func(http.Handler) http.Handler) {
			r.With(limit).Get("/limited", ok)
			r.Get("/free", ok)
		},
		"Group": func(r *chi.Mux, limit func(http.Handler) http.Handler) {
			r.Group(func(r chi.Router) {
				r.Use(limit)
				r.Get("/limited", ok)
			})
			r.Get("/free", ok)
		},
		"Route": func(r *chi.Mux, limit func(http.Handler) http.Handler) {
			r.Route("/limited", func(r chi.Router) {
				r.Use(limit)
				r.Get("/", ok)
			})
			r.Get("/free", ok)
		},
		"Mount": func(r *chi.Mux, limit func(http.Handler) http.Handler) {
			sub := chi.NewRouter()
			sub.Use(limit)
			sub.Get("/", ok)
			r.Mount("/limited", sub)
			r.Get("/free", ok)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := chi.NewRouter()
			build(r, perDay(1, everybody).Handler)
			want(t, r, "GET", "/limited", 200)
			want(t, r, "GET", "/limited", 429)
			if name != "Use" {
				want(t, r, "GET", "/free", 200)
			}
		})
	}
}

func TestPagesThatDoNotExistAreCountedWhereTheLimiterIs(t *testing.T) {
	r := chi.NewRouter()
	r.Use(perDay(2, everybody).Handler)
	r.Get("/", ok)
	want(t, r, "GET", "/no/such/page", 404)
	want(t, r, "POST", "/", 405)
	want(t, r, "GET", "/no/such/page", 429)

	r = chi.NewRouter()
	r.Get("/", ok)
	r.With(perDay(1, everybody).Handler).NotFound(
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	want(t, r, "GET", "/no/such/page", 410)
	want(t, r, "GET", "/no/such/page", 429)
	want(t, r, "GET", "/", 200)
}

func TestChisClientAddressIsUsedOnlyIfAskedFor(t *testing.T) {
	forged := []string{"X-Real-IP: 198.51.100.1", "X-Forwarded-For: 198.51.100.1", "True-Client-IP: 198.51.100.1"}

	r := chi.NewRouter()
	r.Use(middleware.ClientIPFromHeader("X-Real-IP"))
	r.Use(perDay(1, keyfuncs.Address(keyfuncs.Peer)).Handler)
	r.Get("/", ok)
	want(t, r, "GET", "/", 200)
	want(t, r, "GET", "/", 429, forged...)

	r = chi.NewRouter()
	r.Use(middleware.ClientIPFromHeader("X-Real-IP"))
	r.Use(perDay(1, keyfuncs.Address(chimw.ClientIP)).Handler)
	r.Get("/", ok)
	want(t, r, "GET", "/", 200, "X-Real-IP: 198.51.100.1")
	want(t, r, "GET", "/", 429, "X-Real-IP: ::ffff:198.51.100.1")
	want(t, r, "GET", "/", 200, "X-Real-IP: 2001:db8::1")
	want(t, r, "GET", "/", 429, "X-Real-IP: 2001:db8::2") // one /64
	want(t, r, "GET", "/", 503)

	r = chi.NewRouter() // without the middleware
	r.Use(perDay(1, keyfuncs.Address(chimw.ClientIP)).Handler)
	r.Get("/", ok)
	want(t, r, "GET", "/", 503, forged...)
}

// The limiter of docs/migrating.md, section "RealIP before httprate", where RealIP was in front
// of httprate and has not been removed.
func TestBehindChisRealIPNobodyIsTakenForAnother(t *testing.T) {
	limit := chimw.MustNew(chimw.Config{
		Rules: []chimw.Rule{{
			Name:  "per-client",
			Limit: limits.SlidingWindow(limits.PerMinute(100)),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
		Headers: headers.Options{Formats: []headers.Format{headers.GitHub}},
	})
	r := chi.NewRouter()
	//lint:ignore SA1019 deprecated, and in use
	r.Use(middleware.RealIP)
	r.Use(limit.Handler)
	r.Get("/", ok)
	for _, header := range []string{"X-Real-IP", "X-Forwarded-For", "True-Client-IP"} {
		for _, address := range []string{"198.51.100.1", "2001:db8::1"} {
			want(t, r, "GET", "/", 503, header+": "+address)
		}
	}
	want(t, r, "GET", "/", 200)
}

func TestMiddlewareOfChiAroundALimiterKeepsPusher(t *testing.T) {
	limiter := chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
		Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1_000)),
		Key:       keyfuncs.Constant[*http.Request]("everybody"),
		FinalCost: core.SpentCost,
	}}})
	wraps := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(middleware.NewWrapResponseWriter(w, r.ProtoMajor), r)
		})
	}
	r := chi.NewRouter()
	r.Use(wraps, limiter.Handler)
	r.Get("/", func(w http.ResponseWriter, r *http.Request) {
		_, flushes := w.(http.Flusher)
		if _, pushes := w.(http.Pusher); r.ProtoMajor != 2 || !flushes || !pushes {
			t.Errorf("%s: Flusher %v, Pusher %v, want both", r.Proto, flushes, pushes)
		}
	})
	parity.ServeOnce(t, r, true)
}
