package fibermw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

// ask sends a request to an app. A field is "Name: value".
func ask(app *fiber.App, method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for _, field := range fields {
		if name, value, ok := strings.Cut(field, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	serverOf(app).ServeHTTP(w, r)
	return w
}

// visit sends requests and prints the answers. A request is "GET /path", with fields
// after "; ".
func visit(app *fiber.App, requests ...string) {
	for _, request := range requests {
		line, fields, _ := strings.Cut(request, "; ")
		method, path, _ := strings.Cut(line, " ")
		w := ask(app, method, path, strings.Split(fields, "; ")...)
		fmt.Println(request, w.Code, strings.TrimSpace(w.Body.String()))
	}
}

func hi(c fiber.Ctx) error { return c.SendString("hi") }

// oncePerDay is a limiter that allows one request a day for each key.
func oncePerDay(key func(fiber.Ctx) (string, error)) *fibermw.Limiter {
	return fibermw.MustNew(fibermw.Config{
		Rules:  []fibermw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: key}},
		Denied: func(c fiber.Ctx, o core.Outcome) error { return c.SendString(o.Verdict().String()) },
	})
}

func ExampleNew() {
	_, err := fibermw.New(fibermw.Config{
		Rules: []fibermw.Rule{
			{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: fibermw.RoutePattern},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	fibermw.MustNew(fibermw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// Two servers with one limit. Their backend would be that of redisbackend.Open.
func ExamplePerAddress() {
	shared := memory.MustNew(memory.Options{})
	for range 2 {
		limiter, err := fibermw.PerAddress(limits.PerDay(1), fibermw.Peer, shared)
		if err != nil {
			fmt.Println(err)
			return
		}
		app := fiber.New()
		app.Use(limiter.Middleware())
		app.Get("/", hi)
		w := ask(app, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// The whole limiter of an API whose clients connect directly.
func ExampleMustPerAddress() {
	limiter := fibermw.MustPerAddress(limits.PerDay(1), fibermw.Peer)
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/", hi)
	for range 2 {
		w := ask(app, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// A request passes the limiters around everything, a group and a route one after another.
func ExampleLimiter_Middleware() {
	perDay := func(name string, n int64) fiber.Handler {
		return fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
			Name: name, Limit: limits.TokenBucket(limits.PerDay(n), n), Key: keyfuncs.Address(fibermw.Peer),
		}}}).Middleware()
	}
	app := fiber.New()
	app.Use(perDay("site", 100))
	api := app.Group("/api", perDay("api", 10))
	api.Get("/report", perDay("report", 1), hi)

	for range 2 {
		w := ask(app, "GET", "/api/report")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
	// 429 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
}

// Denials in the JSON format of an API. The status is set already.
func ExampleConfig_denied() {
	limiter := fibermw.MustNew(fibermw.Config{
		Rules: []fibermw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: keyfuncs.Address(fibermw.Peer)},
		},
		Denied: func(c fiber.Ctx, o core.Outcome) error {
			return c.JSON(fiber.Map{"error": o.Verdict().String()})
		},
	})
	app := fiber.New()
	app.Get("/", limiter.Middleware(), hi)
	visit(app, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 {"error":"denied"}
}

// Denials answered by the ErrorHandler of the app, like other errors.
func ExampleConfig_errorHandler() {
	limiter := fibermw.MustNew(fibermw.Config{
		Rules: []fibermw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: keyfuncs.Address(fibermw.Peer)},
		},
		Denied: func(_ fiber.Ctx, o core.Outcome) error {
			return fiber.NewError(o.Status(), "please try again later")
		},
	})
	app := fiber.New()
	app.Get("/", limiter.Middleware(), hi)
	visit(app, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 please try again later
}

func ExampleOutcomeFrom() {
	limiter := fibermw.MustNew(fibermw.Config{
		Rules: []fibermw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(5), 5), Key: keyfuncs.Address(fibermw.Peer)},
		},
		OutcomeInContext: true,
	})
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/", func(c fiber.Ctx) error {
		outcome, _ := fibermw.OutcomeFrom(c)
		return c.SendString(fmt.Sprintf("%d left today", outcome.At(0).Remaining))
	})
	visit(app, "GET /")
	// Output: GET / 200 4 left today
}

// Users count by the value that authentication has set, all others by API key or address. Key
// functions of this package and lifted ones work together.
func ExampleLift() {
	limiter := oncePerDay(keyfuncs.First(
		fibermw.ContextValue("user"),
		fibermw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1"))),
		keyfuncs.Address(fibermw.Peer),
	))
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/", hi)
	visit(app, "GET /; X-API-Key: k1", "GET /; X-API-Key: k1", "GET /; X-API-Key: made-up", "GET /")
	// Output:
	// GET /; X-API-Key: k1 200 hi
	// GET /; X-API-Key: k1 429 denied
	// GET /; X-API-Key: made-up 200 hi
	// GET / 429 denied
}

// Behind proxies whose addresses are known, the client is the last hop that is not a proxy.
func ExampleLift_proxies() {
	limiter := oncePerDay(keyfuncs.Address(fibermw.Lift(keyfuncs.MustTrustedProxies("192.0.2.0/24"))))
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/", hi)
	visit(app,
		"GET /; X-Forwarded-For: 198.51.100.1, 203.0.113.7",
		"GET /; X-Forwarded-For: 198.51.100.2, 203.0.113.7", // the left address is forged
	)
	// Output:
	// GET /; X-Forwarded-For: 198.51.100.1, 203.0.113.7 200 hi
	// GET /; X-Forwarded-For: 198.51.100.2, 203.0.113.7 429 denied
}

// A policy file reads requests of net/http.
func ExampleRequest() {
	p, err := policy.Parse("weir.yaml", []byte(`
version: 1
client: {peer: true}
rules:
  - name: log-in
    match: POST /login
    key: address
    limit: 1/hour
`), policy.Names[fiber.Ctx]{Request: fibermw.Request})
	if err != nil {
		fmt.Println(err)
		return
	}
	app := fiber.New()
	app.Use(fibermw.MustNew(fibermw.Config{Rules: p.Rules(), Denied: fibermw.PlainText}).Middleware())
	app.Post("/login", hi)
	visit(app, "POST /login")
	fmt.Println(ask(app, "POST", "/login").Code)
	// Output:
	// POST /login 200 hi
	// 429
}

func ExamplePeer() {
	app := fiber.New()
	app.Use(oncePerDay(keyfuncs.Address(fibermw.Peer)).Middleware())
	app.Get("/", hi)
	visit(app, "GET /", "GET /; X-Forwarded-For: 198.51.100.1")
	// Output:
	// GET / 200 hi
	// GET /; X-Forwarded-For: 198.51.100.1 429 denied
}

func ExampleHeader() {
	app := fiber.New()
	app.Use(oncePerDay(fibermw.Header("X-Tenant")).Middleware())
	app.Get("/", hi)
	visit(app, "GET /; X-Tenant: a", "GET /; X-Tenant: a", "GET /; X-Tenant: b")
	// Output:
	// GET /; X-Tenant: a 200 hi
	// GET /; X-Tenant: a 429 denied
	// GET /; X-Tenant: b 200 hi
}

// Health checks have a limit of their own, ten times as high as that of other requests.
func ExampleLiftCondition() {
	isProbe := fibermw.LiftCondition(nethttp.MustProbes("/healthz"))
	client := keyfuncs.Address(fibermw.Peer)
	limiter := fibermw.MustNew(fibermw.Config{
		Rules: []fibermw.Rule{
			{Name: "requests", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: core.Unless(isProbe, client)},
			{Name: "probes", Limit: limits.TokenBucket(limits.PerDay(10), 10), Key: core.When(isProbe, client)},
		},
		Denied: func(c fiber.Ctx, o core.Outcome) error { return c.SendString(o.Verdict().String()) },
	})
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/", hi)
	app.Get("/healthz", hi)
	visit(app, "GET /", "GET /", "GET /healthz", "GET /healthz")
	// Output:
	// GET / 200 hi
	// GET / 429 denied
	// GET /healthz 200 hi
	// GET /healthz 200 hi
}

// The answer of a denial is one for net/http.
func ExampleLiftDenied() {
	limiter := fibermw.MustNew(fibermw.Config{
		Rules: []fibermw.Rule{{
			Name: "requests", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: keyfuncs.Constant[fiber.Ctx]("all"),
		}},
		Denied: fibermw.LiftDenied(func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
			w.WriteHeader(o.Status())
			fmt.Fprint(w, r.URL.Path, " has to wait")
		}),
	})
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/items", hi)
	visit(app, "GET /items", "GET /items")
	// Output:
	// GET /items 200 hi
	// GET /items 429 /items has to wait
}

// A route knows its pattern; middleware of Use does not know the route that follows.
func ExampleRoutePattern() {
	app := fiber.New()
	limit := oncePerDay(fibermw.RoutePattern).Middleware()
	app.Get("/users/:id", limit, hi)
	app.Get("/posts/:id", limit, hi)
	visit(app, "GET /users/1", "GET /users/2", "GET /posts/1")
	// Output:
	// GET /users/1 200 hi
	// GET /users/2 429 denied
	// GET /posts/1 200 hi
}

func ExamplePathParam() {
	app := fiber.New()
	app.Get("/users/:id", oncePerDay(fibermw.PathParam("id")).Middleware(), hi)
	visit(app, "GET /users/a", "GET /users/%61", "GET /users/b")
	// Output:
	// GET /users/a 200 hi
	// GET /users/%61 429 denied
	// GET /users/b 200 hi
}

func ExampleContextValue() {
	authenticate := func(c fiber.Ctx) error {
		c.Locals("user", len(c.Get("Authorization"))) // any integer or string
		return c.Next()
	}
	app := fiber.New()
	app.Use(authenticate, oncePerDay(fibermw.ContextValue("user")).Middleware())
	app.Get("/", hi)
	visit(app, "GET /; Authorization: a", "GET /; Authorization: a", "GET /; Authorization: bb")
	// Output:
	// GET /; Authorization: a 200 hi
	// GET /; Authorization: a 429 denied
	// GET /; Authorization: bb 200 hi
}

// The client address that Fiber finds. Without ProxyHeader it is that of the connection.
func ExampleIP() {
	app := fiber.New(fiber.Config{
		TrustProxy:       true,
		TrustProxyConfig: fiber.TrustProxyConfig{Proxies: []string{"192.0.2.0/24"}},
		ProxyHeader:      "X-Real-IP",
	})
	app.Use(oncePerDay(keyfuncs.Address(fibermw.IP)).Middleware())
	app.Get("/", hi)
	visit(app,
		"GET /; X-Real-IP: 203.0.113.7", "GET /; X-Real-IP: 203.0.113.7",
		"GET /; X-Real-IP: 203.0.113.8",
	)
	// Output:
	// GET /; X-Real-IP: 203.0.113.7 200 hi
	// GET /; X-Real-IP: 203.0.113.7 429 denied
	// GET /; X-Real-IP: 203.0.113.8 200 hi
}

func ExamplePlainText() {
	limiter := fibermw.MustNew(fibermw.Config{
		Rules: []fibermw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerMinute(1), 1),
				Key: keyfuncs.Address(fibermw.Peer)},
		},
		Denied: fibermw.PlainText,
		// A clock that stands still, so that the output is always the same.
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}),
	})
	app := fiber.New()
	app.Get("/", limiter.Middleware(), hi)
	visit(app, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 Too many requests: retry in 60 seconds.
}
