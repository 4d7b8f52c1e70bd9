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
