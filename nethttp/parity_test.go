package nethttp_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/shed"
)

func TestParity(t *testing.T) {
	var mux *http.ServeMux // of the application served last
	same := func(f func(*http.Request) (string, error)) func(*http.Request) (string, error) { return f }
	parity.Run(t, parity.Adapter[*http.Request]{
		Serve: func(t *testing.T, app parity.App[*http.Request]) http.Handler {
			mux = http.NewServeMux()
			return serveParity(t, mux, app)
		},
		New: func(rules []nethttp.Rule) (parity.Limiter[*http.Request], error) {
			return nethttp.New(nethttp.Config{Rules: rules})
		},
		Panics: map[string]func(){
			"MustNew": func() { nethttp.MustNew(nethttp.Config{}) },
			"nil":     func() { (*nethttp.Limiter)(nil).Handler(http.NotFoundHandler()) },
			"zero":    func() { new(nethttp.Limiter).Handler(http.NotFoundHandler()) },
		},
		Request:       func(r *http.Request) *http.Request { return r },
		Lift:          same,
		LiftCondition: func(f func(*http.Request) bool) func(*http.Request) bool { return f },
		LiftLimit: func(f func(*http.Request) (limits.Limit, error)) func(*http.Request) (limits.Limit, error) {
			return f
		},
		RoutePattern: func(r *http.Request) (string, error) { return keyfuncs.MuxPattern(mux)(r) },
		PathParam: func(name string) func(*http.Request) (string, error) {
			if name == "" {
				return nil
			}
			return keyfuncs.Value(func(r *http.Request) any { return r.PathValue(name) })
		},
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

type contextKey string

func serveParity(t *testing.T, mux *http.ServeMux, app parity.App[*http.Request]) http.Handler {
	limiter := func(c *parity.Config[*http.Request]) func(http.Handler) http.Handler {
		if c == nil {
			return func(next http.Handler) http.Handler { return next }
		}
		config := nethttp.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, SkipPreflight: c.SkipPreflight, MaxWaiting: c.MaxWaiting,
			OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(w http.ResponseWriter, _ *http.Request, o core.Outcome) { parity.Sorry(w, o) }
		}
		if c.PlainText {
			config.Denied = nethttp.PlainText
		}
		if c.Boom {
			config.Denied = func(http.ResponseWriter, *http.Request, core.Outcome) { panic("boom") }
		}
		limit, err := nethttp.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if c.Made != nil {
			c.Made(limit)
		}
		return limit.Handler
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { parity.Hello(w) })
	user := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { parity.User(w, r.PathValue("id")) })
	site, group, route := limiter(app.Site), limiter(app.Group), limiter(app.Route)
	if app.Twice {
		route = site
	}
	mux.Handle("GET /hello", hello)
	mux.Handle("OPTIONS /hello", hello)
	mux.Handle("GET /left", route(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, ok := nethttp.OutcomeFrom(r.Context())
		parity.Left(w, o, ok)
	})))
	mux.HandleFunc("GET /conflict", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(parity.ErrConflict.StatusCode())
	})
	mux.HandleFunc("GET /breaks", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	mux.Handle("GET /users/{id}", route(user))
	mux.Handle("POST /login", route(hello))
	mux.HandleFunc("/login", func(w http.ResponseWriter, _ *http.Request) { parity.NotAllowed(w) })
	mux.Handle("GET /api/items/{id}", group(user))
	mux.Handle("GET /api/both/{id}", group(route(user)))
	for path, handler := range app.Extra {
		mux.Handle("GET "+path, route(handler))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { parity.NotFound(w) })

	var handler http.Handler = mux
	if app.Recover == parity.Inside {
		handler = recoverer(handler)
	}
	if app.TimeOut == parity.Inside {
		handler = http.TimeoutHandler(handler, parity.TimeOut, "")
	}
	handler = site(handler)
	if app.TimeOut == parity.Outside {
		handler = http.TimeoutHandler(handler, parity.TimeOut, "")
	}
	if app.Shed != nil {
		handler = shed.Handler(app.Shed, handler)
	}
	handler = setUser(handler)
	if app.Recover == parity.Outside {
		handler = recoverer(handler)
	}
	return handler
}

func setUser(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user := r.Header.Get("X-User"); user != "" {
			r = r.WithContext(context.WithValue(r.Context(), contextKey("user"), user))
		}
		next.ServeHTTP(w, r)
	})
}

func recoverer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		next.ServeHTTP(w, r)
	})
}
