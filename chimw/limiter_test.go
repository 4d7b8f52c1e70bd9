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
	"github.com/weir-go/weir/keyfuncs"
)

// perDay is a limiter that allows n requests.
func perDay(n int64, key func(*http.Request) (string, error)) *chimw.Limiter {
	return chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{Name: "test", Limit: core.TokenBucket(core.PerDay(n), n), Key: key}}})
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

func want(t *testing.T, h http.Handler, method, path string, status int, fields ...string) *httptest.ResponseRecorder {
	t.Helper()
	w := ask(h, method, path, fields...)
	if w.Code != status {
		t.Errorf("%s %s: status %d, want %d; fields %v", method, path, w.Code, status, w.Header())
	}
	return w
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
	r.With(perDay(1, everybody).Handler).NotFound(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	want(t, r, "GET", "/no/such/page", 410)
	want(t, r, "GET", "/no/such/page", 429)
	want(t, r, "GET", "/", 200)
}

// recorder is a key function that remembers the keys another found.
type recorder struct {
	key  func(*http.Request) (string, error)
	keys []string
}

func (rec *recorder) find(r *http.Request) (string, error) {
	key, err := rec.key(r)
	if err != nil {
		key = err.Error()
	}
	rec.keys = append(rec.keys, key)
	return key, err
}

// everywhere returns a router with a limiter in every place that one can be in.
func everywhere(limit func(http.Handler) http.Handler, before ...func(http.Handler) http.Handler) *chi.Mux {
	r := chi.NewRouter()
	r.Use(before...)
	r.Use(limit)
	r.With(limit).Get("/users/{id}", ok)
	r.With(limit).Get("/files/*", ok)
	r.Route("/api", func(r chi.Router) {
		r.Use(limit)
		r.With(limit).Get("/", ok)
		r.Route("/{tenant}", func(r chi.Router) {
			r.Use(limit)
			r.Group(func(r chi.Router) {
				r.Use(limit)
				r.Get("/items/{id}", ok)
			})
		})
	})
	r.Mount("/plain", http.HandlerFunc(ok))
	return r
}

func TestARouteHasOneKeyWhereverTheLimiterIs(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/users/1", "/users/{id}"},
		{"GET", "/files/a/b", "/files/*"},
		{"GET", "/api", "/api"},
		{"GET", "/api/", "/api"},
		{"GET", "/api/acme/items/1", "/api/{tenant}/items/{id}"},
		{"GET", "/api/acme/items/a%2Fb", "/api/{tenant}/items/{id}"},
		{"GET", "/plain/x", "/plain/*"},
		{"GET", "/no/such/page", ""},
		{"GET", "/api/acme/none", ""},
		{"POST", "/users/1", ""},
		{"BREW", "/users/1", ""},
	} {
		rec := &recorder{key: chimw.RoutePattern}
		ask(everywhere(perDay(100, rec.find).Handler), c.method, c.path)
		if len(rec.keys) == 0 {
			t.Errorf("%s %s: no limiter was passed", c.method, c.path)
		}
		for i, key := range rec.keys {
			if key != c.want {
				t.Errorf("%s %s: limiter %d found %q, want %q", c.method, c.path, i, key, c.want)
			}
		}
	}
}

func TestARouteIsFoundByThePathThatMiddlewareLeft(t *testing.T) {
	for path, pattern := range map[string]string{
		"/users/1/": "/users/{id}", "/api/acme/items/1/": "/api/{tenant}/items/{id}", "/users/1": "/users/{id}",
	} {
		rec := &recorder{key: chimw.RoutePattern}
		r := everywhere(perDay(100, rec.find).Handler, middleware.StripSlashes)
		want(t, r, "GET", path, 200)
		for i, key := range rec.keys {
			if key != pattern {
				t.Errorf("%s: limiter %d found %q, want %q", path, i, key, pattern)
			}
		}
	}
	rec := &recorder{key: chimw.RoutePattern}
	want(t, everywhere(perDay(100, rec.find).Handler, middleware.GetHead), "HEAD", "/users/1", 200)
	for i, key := range rec.keys {
		if key != "/users/{id}" {
			t.Errorf("HEAD as GET: limiter %d found %q", i, key)
		}
	}
}

func TestOutsideChiThereIsNoRoute(t *testing.T) {
	r := httptest.NewRequest("GET", "/users/1", nil)
	if key, err := chimw.RoutePattern(r); key != "" || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	if key, err := chimw.PathParam("id")(r); key != "" || err != core.ErrAbsent {
		t.Errorf("%q, %v", key, err)
	}
}

func TestAParameterIsFoundWhereverTheLimiterIs(t *testing.T) {
	for path, id := range map[string]string{
		"/users/1": "1", "/api/acme/items/2": "2", "/api/acme/none": core.ErrAbsent.Error(), "/files/3": core.ErrAbsent.Error(),
	} {
		rec := &recorder{key: chimw.PathParam("id")}
		ask(everywhere(perDay(100, rec.find).Handler), "GET", path)
		for i, key := range rec.keys {
			if key != id {
				t.Errorf("%s: limiter %d found %q, want %q", path, i, key, id)
			}
		}
	}
	if chimw.PathParam("") != nil {
		t.Error("a parameter without a name must be nil, for New to report")
	}
}

func TestLookingAheadLeavesTheRequestAsItWas(t *testing.T) {
	r := chi.NewRouter()
	r.Use(perDay(9, keyfuncs.Join(chimw.RoutePattern, chimw.PathParam("id"))).Handler)
	r.Get("/users/{id}", func(w http.ResponseWriter, r *http.Request) {
		rctx := chi.RouteContext(r.Context())
		if got := rctx.RoutePattern() + " " + rctx.URLParam("id") + " " + r.PathValue("id"); got != "/users/{id} 1 1" || len(rctx.URLParams.Keys) != 1 {
			t.Errorf("the handler found %q, parameters %v", got, rctx.URLParams)
		}
	})
	want(t, r, "GET", "/users/1", 200)
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

func TestMistakesAreFoundAtSetUp(t *testing.T) {
	if _, err := chimw.New(chimw.Config{}); err == nil {
		t.Error("New: no error")
	}
	for name, f := range map[string]func(){
		"MustNew": func() { chimw.MustNew(chimw.Config{}) },
		"a nil limiter": func() {
			var limit *chimw.Limiter
			r := chi.NewRouter()
			r.With(limit.Handler).Get("/", ok)
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}
