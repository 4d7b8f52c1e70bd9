package chimw_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// visit sends requests and prints the answers. A request is "GET /path", with fields
// after "; ".
func visit(handler http.Handler, requests ...string) {
	for _, request := range requests {
		line, fields, _ := strings.Cut(request, "; ")
		method, path, _ := strings.Cut(line, " ")
		w := ask(handler, method, path, strings.Split(fields, "; ")...)
		fmt.Println(request, w.Code, strings.TrimSpace(w.Body.String()))
	}
}

func hi(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hi") }

// oncePerDay is a limiter that allows one request a day for each key.
func oncePerDay(key func(*http.Request) (string, error)) *chimw.Limiter {
	return chimw.MustNew(chimw.Config{
		Rules: []chimw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: key}},
		Denied: func(w http.ResponseWriter, _ *http.Request, o core.Outcome) {
			w.WriteHeader(o.Status())
			fmt.Fprint(w, o.Verdict())
		},
	})
}

func ExampleNew() {
	_, err := chimw.New(chimw.Config{
		Rules: []chimw.Rule{
			{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: chimw.RoutePattern},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	chimw.MustNew(chimw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// Two servers with one limit. Their backend would be that of redisbackend.Open.
func ExamplePerAddress() {
	shared := memory.MustNew(memory.Options{})
	for range 2 {
		limiter, err := chimw.PerAddress(limits.PerDay(1), keyfuncs.Peer, shared)
		if err != nil {
			fmt.Println(err)
			return
		}
		r := chi.NewRouter()
		r.Use(limiter.Handler)
		r.Get("/", hi)
		w := ask(r, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// The whole limiter of an API whose clients connect directly.
func ExampleMustPerAddress() {
	limiter := chimw.MustPerAddress(limits.PerDay(1), keyfuncs.Peer)
	r := chi.NewRouter()
	r.Use(limiter.Handler)
	r.Get("/", hi)
	for range 2 {
		w := ask(r, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// A request passes the limiters around everything, a sub-router and a route one after
// another.
func ExampleLimiter() {
	perDay := func(name string, n int64) *chimw.Limiter {
		return chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
			Name: name, Limit: limits.TokenBucket(limits.PerDay(n), n), Key: keyfuncs.Address(keyfuncs.Peer),
		}}})
	}
	r := chi.NewRouter()
	r.Use(perDay("site", 100).Handler)
	r.Route("/api", func(r chi.Router) {
		r.Use(perDay("api", 10).Handler)
		r.With(perDay("report", 1).Handler).Get("/report", hi)
	})

	for range 2 {
		w := ask(r, "GET", "/api/report")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
	// 429 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
}

func ExampleOutcomeFrom() {
	limiter := chimw.MustNew(chimw.Config{
		Rules: []chimw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(5), 5), Key: keyfuncs.Address(keyfuncs.Peer)},
		},
		OutcomeInContext: true,
	})
	r := chi.NewRouter()
	r.Use(limiter.Handler)
	r.Get("/", func(w http.ResponseWriter, r *http.Request) {
		if outcome, ok := chimw.OutcomeFrom(r.Context()); ok {
			fmt.Fprintf(w, "%d left today", outcome.At(0).Remaining)
		}
	})
	visit(r, "GET /")
	// Output: GET / 200 4 left today
}

// In a sub-router, chi itself knows only "/users/*" so far.
func ExampleRoutePattern() {
	r := chi.NewRouter()
	r.Route("/users", func(r chi.Router) {
		r.Use(oncePerDay(chimw.RoutePattern).Handler)
		r.Get("/{id}", hi)
		r.Get("/{id}/posts", hi)
	})
	visit(r, "GET /users/1", "GET /users/2", "GET /users/1/posts")
	// Output:
	// GET /users/1 200 hi
	// GET /users/2 429 denied
	// GET /users/1/posts 200 hi
}

func ExamplePathParam() {
	r := chi.NewRouter()
	r.With(oncePerDay(chimw.PathParam("id")).Handler).Get("/users/{id}", hi)
	visit(r, "GET /users/1", "GET /users/1", "GET /users/2")
	// Output:
	// GET /users/1 200 hi
	// GET /users/1 429 denied
	// GET /users/2 200 hi
}

// The client address that earlier middleware found. With chi 5.3.0 or later it is one of chi's own,
// such as middleware.ClientIPFromXFF("192.0.2.0/24"), and the function middleware.GetClientIPAddr.
func ExampleClientIP() {
	type key struct{}
	fromProxy := func(next http.Handler) http.Handler { // the only way to this server
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if addr, err := netip.ParseAddr(r.Header.Get("X-Real-IP")); err == nil {
				r = r.WithContext(context.WithValue(r.Context(), key{}, addr))
			}
			next.ServeHTTP(w, r)
		})
	}
	found := func(ctx context.Context) netip.Addr {
		addr, _ := ctx.Value(key{}).(netip.Addr)
		return addr
	}
	r := chi.NewRouter()
	r.Use(fromProxy)
	r.Use(oncePerDay(keyfuncs.Address(chimw.ClientIP(found))).Handler)
	r.Get("/", hi)
	visit(r,
		"GET /; X-Real-IP: 203.0.113.7",
		"GET /; X-Real-IP: 203.0.113.7",
		"GET /; X-Real-IP: 203.0.113.8",
	)
	// Output:
	// GET /; X-Real-IP: 203.0.113.7 200 hi
	// GET /; X-Real-IP: 203.0.113.7 429 denied
	// GET /; X-Real-IP: 203.0.113.8 200 hi
}

func ExamplePlainText() {
	limiter := chimw.MustNew(chimw.Config{
		Rules: []chimw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerMinute(1), 1),
				Key: keyfuncs.Address(keyfuncs.Peer)},
		},
		Denied: chimw.PlainText,
		// A clock that stands still, so that the output is always the same.
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}),
	})
	r := chi.NewRouter()
	r.With(limiter.Handler).Get("/", hi)
	visit(r, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 Too many requests: retry in 60 seconds.
}
