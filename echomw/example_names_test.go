package echomw_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
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

func hi(c echo.Context) error { return c.String(http.StatusOK, "hi") }

// oncePerDay is a limiter that allows one request a day for each key.
func oncePerDay(key func(echo.Context) (string, error)) *echomw.Limiter {
	return echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: key}},
		Denied: func(c echo.Context, o core.Outcome) error {
			return c.String(o.Status(), o.Verdict().String())
		},
	})
}

func ExampleNew() {
	_, err := echomw.New(echomw.Config{
		Rules: []echomw.Rule{
			{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: echomw.RoutePattern},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	echomw.MustNew(echomw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// Two servers with one limit. Their backend would be that of redisbackend.Open.
func ExamplePerAddress() {
	shared := memory.MustNew(memory.Options{})
	for range 2 {
		limiter, err := echomw.PerAddress(limits.PerDay(1), echomw.Lift(keyfuncs.Peer), shared)
		if err != nil {
			fmt.Println(err)
			return
		}
		e := echo.New()
		e.Use(limiter.Middleware())
		e.GET("/", hi)
		w := ask(e, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// The whole limiter of an API whose clients connect directly.
func ExampleMustPerAddress() {
	limiter := echomw.MustPerAddress(limits.PerDay(1), echomw.Lift(keyfuncs.Peer))
	e := echo.New()
	e.Use(limiter.Middleware())
	e.GET("/", hi)
	for range 2 {
		w := ask(e, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// A request passes the limiters around everything, a group and a route one after another.
func ExampleLimiter_Middleware() {
	perDay := func(name string, n int64) echo.MiddlewareFunc {
		return echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
			Name: name, Limit: limits.TokenBucket(limits.PerDay(n), n),
			Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
		}}}).Middleware()
	}
	e := echo.New()
	e.Use(perDay("site", 100))
	api := e.Group("/api", perDay("api", 10))
	api.GET("/report", hi, perDay("report", 1))

	for range 2 {
		w := ask(e, "GET", "/api/report")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
	// 429 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
}

// Denials in the JSON format of an API.
func ExampleConfig_denied() {
	limiter := echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(1), 1),
				Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		},
		Denied: func(c echo.Context, o core.Outcome) error {
			return c.JSON(o.Status(), map[string]string{"error": o.Verdict().String()})
		},
	})
	e := echo.New()
	e.GET("/", hi, limiter.Middleware())
	visit(e, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 {"error":"denied"}
}

func ExampleOutcomeFrom() {
	limiter := echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(5), 5),
				Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		},
		OutcomeInContext: true,
	})
	e := echo.New()
	e.Use(limiter.Middleware())
	e.GET("/", func(c echo.Context) error {
		outcome, _ := echomw.OutcomeFrom(c)
		return c.String(http.StatusOK, fmt.Sprintf("%d left today", outcome.At(0).Remaining))
	})
	visit(e, "GET /")
	// Output: GET / 200 4 left today
}

// Users count by the value that authentication has set, everybody else by API key or
// address. Key functions of echo and lifted ones work together.
func ExampleLift() {
	limiter := oncePerDay(keyfuncs.First(
		echomw.ContextValue("user"),
		echomw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1"))),
		echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	))
	e := echo.New()
	e.Use(limiter.Middleware())
	e.GET("/", hi)
	visit(e, "GET /; X-API-Key: k1", "GET /; X-API-Key: k1", "GET /; X-API-Key: made-up", "GET /")
	// Output:
	// GET /; X-API-Key: k1 200 hi
	// GET /; X-API-Key: k1 429 denied
	// GET /; X-API-Key: made-up 200 hi
	// GET / 429 denied
}

// Health checks have a limit of their own, ten times as high as that of other requests.
func ExampleLiftCondition() {
	isProbe := echomw.LiftCondition(nethttp.MustProbes("/healthz"))
	client := echomw.Lift(keyfuncs.Address(keyfuncs.Peer))
	limiter := echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{
			{Name: "requests", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: core.Unless(isProbe, client)},
			{Name: "probes", Limit: limits.TokenBucket(limits.PerDay(10), 10), Key: core.When(isProbe, client)},
		},
		Denied: func(c echo.Context, o core.Outcome) error { return c.String(o.Status(), o.Verdict().String()) },
	})
	e := echo.New()
	e.Use(limiter.Middleware())
	e.GET("/", hi)
	e.GET("/healthz", hi)
	visit(e, "GET /", "GET /", "GET /healthz", "GET /healthz")
	// Output:
	// GET / 200 hi
	// GET / 429 denied
	// GET /healthz 200 hi
	// GET /healthz 200 hi
}

// The answer of a denial is one for net/http.
func ExampleLiftDenied() {
	limiter := echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{{
			Name: "requests", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: keyfuncs.Constant[echo.Context]("all"),
		}},
		Denied: echomw.LiftDenied(func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
			w.WriteHeader(o.Status())
			fmt.Fprint(w, r.URL.Path, " has to wait")
		}),
	})
	e := echo.New()
	e.Use(limiter.Middleware())
	e.GET("/items", hi)
	visit(e, "GET /items", "GET /items")
	// Output:
	// GET /items 200 hi
	// GET /items 429 /items has to wait
}

func ExampleRoutePattern() {
	e := echo.New()
	e.Use(oncePerDay(echomw.RoutePattern).Middleware())
	e.GET("/users/:id", hi)
	e.GET("/posts/:id", hi)
	visit(e, "GET /users/1", "GET /users/2", "GET /posts/1")
	// Output:
	// GET /users/1 200 hi
	// GET /users/2 429 denied
	// GET /posts/1 200 hi
}

func ExamplePathParam() {
	e := echo.New()
	e.GET("/users/:id", hi, oncePerDay(echomw.PathParam("id")).Middleware())
	visit(e, "GET /users/1", "GET /users/1", "GET /users/2")
	// Output:
	// GET /users/1 200 hi
	// GET /users/1 429 denied
	// GET /users/2 200 hi
}

func ExampleContextValue() {
	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("user", len(c.Request().Header.Get("Authorization"))) // any integer or string
			return next(c)
		}
	}
	e := echo.New()
	e.Use(authenticate, oncePerDay(echomw.ContextValue("user")).Middleware())
	e.GET("/", hi)
	visit(e, "GET /; Authorization: a", "GET /; Authorization: a", "GET /; Authorization: bb")
	// Output:
	// GET /; Authorization: a 200 hi
	// GET /; Authorization: a 429 denied
	// GET /; Authorization: bb 200 hi
}

// The client address that echo finds, after telling echo which proxies to believe.
func ExampleRealIP() {
	e := echo.New()
	_, proxies, _ := net.ParseCIDR("192.0.2.0/24")
	e.IPExtractor = echo.ExtractIPFromXFFHeader(
		echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false), // believed otherwise
		echo.TrustIPRange(proxies),
	)
	e.Use(oncePerDay(keyfuncs.Address(echomw.RealIP)).Middleware())
	e.GET("/", hi)
	visit(e,
		"GET /; X-Forwarded-For: 198.51.100.1, 203.0.113.7",
		"GET /; X-Forwarded-For: 198.51.100.2, 203.0.113.7", // the left address is forged
	)
	// Output:
	// GET /; X-Forwarded-For: 198.51.100.1, 203.0.113.7 200 hi
	// GET /; X-Forwarded-For: 198.51.100.2, 203.0.113.7 429 denied
}

// Denials answered by the error handler of the Echo, like other errors.
func ExampleConfig_errorHandler() {
	limiter := echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(1), 1),
				Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		},
		Denied: func(_ echo.Context, o core.Outcome) error {
			return echo.NewHTTPError(o.Status(), "please try again later")
		},
	})
	e := echo.New()
	e.GET("/", hi, limiter.Middleware())
	visit(e, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 {"message":"please try again later"}
}

func ExamplePlainText() {
	limiter := echomw.MustNew(echomw.Config{
		Rules: []echomw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerMinute(1), 1),
				Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		},
		Denied: echomw.PlainText,
		// A clock that stands still, so that the output is always the same.
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}),
	})
	e := echo.New()
	e.GET("/", hi, limiter.Middleware())
	visit(e, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 Too many requests: retry in 60 seconds.
}
