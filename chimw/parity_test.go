package chimw_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

type contextKey string

func TestParity(t *testing.T) {
	parity.Run(t, parity.Adapter[*http.Request]{
		Serve: serve,
		New: func(rules []chimw.Rule) (parity.Limiter[*http.Request], error) {
			return chimw.New(chimw.Config{Rules: rules})
		},
		Panics: map[string]func(){
			"MustNew": func() { chimw.MustNew(chimw.Config{}) },
			"nil":     func() { (*chimw.Limiter)(nil).Handler(http.NotFoundHandler()) },
			"zero":    func() { new(chimw.Limiter).Handler(http.NotFoundHandler()) },
		},
		Request:       func(r *http.Request) *http.Request { return r },
		Lift:          func(f func(*http.Request) (string, error)) func(*http.Request) (string, error) { return f },
		LiftCondition: func(f func(*http.Request) bool) func(*http.Request) bool { return f },
		LiftLimit: func(f func(*http.Request) (limits.Limit, error)) func(*http.Request) (limits.Limit, error) {
			return f
		},
		RoutePattern: chimw.RoutePattern,
		PathParam:    chimw.PathParam,
		ContextValue: func(name string) func(*http.Request) (string, error) {
			if name == "" {
				return nil
			}
			return keyfuncs.FromContext(func(ctx context.Context) (string, bool) {
				user, ok := ctx.Value(contextKey(name)).(string)
				return user, ok
			})
		},
	})
}

func serve(t *testing.T, app parity.App[*http.Request]) http.Handler {
	limiter := func(c *parity.Config[*http.Request]) chi.Middlewares {
		if c == nil {
			return nil
		}
		config := chimw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, SkipPreflight: c.SkipPreflight, MaxWaiting: c.MaxWaiting,
			OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(w http.ResponseWriter, _ *http.Request, o core.Outcome) { parity.Sorry(w, o) }
		}
		if c.PlainText {
			config.Denied = chimw.PlainText
		}
		if c.Boom {
			config.Denied = func(http.ResponseWriter, *http.Request, core.Outcome) { panic("boom") }
		}
		limit, err := chimw.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if c.Made != nil {
			c.Made(limit)
		}
		return chi.Middlewares{limit.Handler}
	}
	hello := func(w http.ResponseWriter, _ *http.Request) { parity.Hello(w) }
	user := func(w http.ResponseWriter, r *http.Request) { parity.User(w, chi.URLParam(r, "id")) }
	site, route := limiter(app.Site), limiter(app.Route)
	if app.Twice {
		route = site
	}

	r := chi.NewRouter()
	if app.Recover == parity.Outside {
		r.Use(middleware.Recoverer)
	}
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if user := r.Header.Get("X-User"); user != "" {
				r = r.WithContext(context.WithValue(r.Context(), contextKey("user"), user))
			}
			next.ServeHTTP(w, r)
		})
	})
	if app.Shed != nil {
		r.Use(func(next http.Handler) http.Handler { return shed.Handler(app.Shed, next) })
	}
	if app.TimeOut == parity.Outside {
		r.Use(middleware.Timeout(parity.TimeOut))
	}
	r.Use(site...)
	if app.TimeOut == parity.Inside {
		r.Use(middleware.Timeout(parity.TimeOut))
	}
	if app.Recover == parity.Inside {
		r.Use(middleware.Recoverer)
	}
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) { parity.NotFound(w) })
	r.Get("/hello", hello)
	r.Options("/hello", hello)
	r.With(route...).Get("/left", func(w http.ResponseWriter, r *http.Request) {
		o, ok := chimw.OutcomeFrom(r.Context())
		parity.Left(w, o, ok)
	})
	r.Get("/conflict", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(parity.ErrConflict.StatusCode()) })
	r.Get("/breaks", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	r.With(route...).Get("/users/{id}", user)
	r.With(route...).Post("/login", hello)
	r.Route("/api", func(r chi.Router) {
		r.Use(limiter(app.Group)...)
		r.Get("/items/{id}", user)
		r.With(route...).Get("/both/{id}", user)
	})
	for path, handler := range app.Extra {
		r.With(route...).Method("GET", path, handler)
	}
	return r
}
