package ginmw_test

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
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

func hi(c *gin.Context) { c.String(http.StatusOK, "hi") }

// oncePerDay is a limiter that allows one request a day for each key.
func oncePerDay(key func(*gin.Context) (string, error)) *ginmw.Limiter {
	return ginmw.MustNew(ginmw.Config{
		Rules:  []ginmw.Rule{{Name: "once", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: key}},
		Denied: func(c *gin.Context, o core.Outcome) { c.String(o.Status(), o.Verdict().String()) },
	})
}

func ExampleNew() {
	_, err := ginmw.New(ginmw.Config{
		Rules: []ginmw.Rule{
			{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0)), Key: ginmw.RoutePattern},
		},
	})
	fmt.Println(err)
	// Output: core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	ginmw.MustNew(ginmw.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// Two servers with one limit. Their backend would be that of redisbackend.Open.
func ExamplePerAddress() {
	shared := memory.MustNew(memory.Options{})
	for range 2 {
		limiter, err := ginmw.PerAddress(limits.PerDay(1), ginmw.Lift(keyfuncs.Peer), shared)
		if err != nil {
			fmt.Println(err)
			return
		}
		r := gin.New()
		r.Use(limiter.Handler())
		r.GET("/", hi)
		w := ask(r, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// The whole limiter of an API whose clients connect directly.
func ExampleMustPerAddress() {
	limiter := ginmw.MustPerAddress(limits.PerDay(1), ginmw.Lift(keyfuncs.Peer))
	r := gin.New()
	r.Use(limiter.Handler())
	r.GET("/", hi)
	for range 2 {
		w := ask(r, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// A request passes the limiters before everything, a group and a route one after another.
func ExampleLimiter_Handler() {
	perDay := func(name string, n int64) gin.HandlerFunc {
		return ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{{
			Name: name, Limit: limits.TokenBucket(limits.PerDay(n), n),
			Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
		}}}).Handler()
	}
	r := gin.New()
	r.Use(perDay("site", 100))
	api := r.Group("/api", perDay("api", 10))
	api.GET("/report", perDay("report", 1), hi)

	for range 2 {
		w := ask(r, "GET", "/api/report")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
	// 429 "site";q=100;w=86400, "api";q=10;w=86400, "report";q=1;w=86400
}

// Denials in the JSON format of an API.
func ExampleConfig_denied() {
	limiter := ginmw.MustNew(ginmw.Config{
		Rules: []ginmw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(1), 1),
				Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		},
		Denied: func(c *gin.Context, o core.Outcome) {
			c.AbortWithStatusJSON(o.Status(), gin.H{"error": o.Verdict().String()})
		},
	})
	r := gin.New()
	r.GET("/", limiter.Handler(), hi)
	visit(r, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 {"error":"denied"}
}

func ExampleOutcomeFrom() {
	limiter := ginmw.MustNew(ginmw.Config{
		Rules: []ginmw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(5), 5),
				Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		},
		OutcomeInContext: true,
	})
	r := gin.New()
	r.Use(limiter.Handler())
	r.GET("/", func(c *gin.Context) {
		if outcome, ok := ginmw.OutcomeFrom(c); ok {
			c.String(http.StatusOK, "%d left today", outcome.At(0).Remaining)
		}
	})
	visit(r, "GET /")
	// Output: GET / 200 4 left today
}

// Users count by the value that authentication has set, everybody else by API key or
// address. Key functions of gin and lifted ones work together.
func ExampleLift() {
	limiter := oncePerDay(keyfuncs.First(
		ginmw.ContextValue("user"),
		ginmw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1"))),
		ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	))
	r := gin.New()
	r.Use(limiter.Handler())
	r.GET("/", hi)
	visit(r, "GET /; X-API-Key: k1", "GET /; X-API-Key: k1", "GET /; X-API-Key: made-up", "GET /")
	// Output:
	// GET /; X-API-Key: k1 200 hi
	// GET /; X-API-Key: k1 429 denied
	// GET /; X-API-Key: made-up 200 hi
	// GET / 429 denied
}

// Health checks have a limit of their own, ten times as high as that of other requests.
func ExampleLiftCondition() {
	isProbe := ginmw.LiftCondition(nethttp.MustProbes("/healthz"))
	client := ginmw.Lift(keyfuncs.Address(keyfuncs.Peer))
	limiter := ginmw.MustNew(ginmw.Config{
		Rules: []ginmw.Rule{
			{Name: "requests", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: core.Unless(isProbe, client)},
			{Name: "probes", Limit: limits.TokenBucket(limits.PerDay(10), 10), Key: core.When(isProbe, client)},
		},
		Denied: func(c *gin.Context, o core.Outcome) { c.String(o.Status(), o.Verdict().String()) },
	})
	r := gin.New()
	r.Use(limiter.Handler())
	r.GET("/", hi)
	r.GET("/healthz", hi)
	visit(r, "GET /", "GET /", "GET /healthz", "GET /healthz")
	// Output:
	// GET / 200 hi
	// GET / 429 denied
	// GET /healthz 200 hi
	// GET /healthz 200 hi
}

// The answer of a denial is one for net/http.
func ExampleLiftDenied() {
	limiter := ginmw.MustNew(ginmw.Config{
		Rules: []ginmw.Rule{{
			Name: "requests", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: keyfuncs.Constant[*gin.Context]("all"),
		}},
		Denied: ginmw.LiftDenied(func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
			w.WriteHeader(o.Status())
			fmt.Fprint(w, r.URL.Path, " has to wait")
		}),
	})
	r := gin.New()
	r.Use(limiter.Handler())
	r.GET("/items", hi)
	visit(r, "GET /items", "GET /items")
	// Output:
	// GET /items 200 hi
	// GET /items 429 /items has to wait
}

func ExampleRoutePattern() {
	r := gin.New()
	r.Use(oncePerDay(ginmw.RoutePattern).Handler())
	r.GET("/users/:id", hi)
	r.GET("/posts/:id", hi)
	visit(r, "GET /users/1", "GET /users/2", "GET /posts/1")
	// Output:
	// GET /users/1 200 hi
	// GET /users/2 429 denied
	// GET /posts/1 200 hi
}

func ExamplePathParam() {
	r := gin.New()
	r.GET("/users/:id", oncePerDay(ginmw.PathParam("id")).Handler(), hi)
	visit(r, "GET /users/1", "GET /users/1", "GET /users/2")
	// Output:
	// GET /users/1 200 hi
	// GET /users/1 429 denied
	// GET /users/2 200 hi
}

func ExampleContextValue() {
	authenticate := func(c *gin.Context) { c.Set("user", len(c.GetHeader("Authorization"))) } // any integer or string
	r := gin.New()
	r.Use(authenticate, oncePerDay(ginmw.ContextValue("user")).Handler())
	r.GET("/", hi)
	visit(r, "GET /; Authorization: a", "GET /; Authorization: a", "GET /; Authorization: bb")
	// Output:
	// GET /; Authorization: a 200 hi
	// GET /; Authorization: a 429 denied
	// GET /; Authorization: bb 200 hi
}

// The client address that gin finds, after telling gin which proxies to believe.
func ExampleClientIP() {
	r := gin.New()
	r.SetTrustedProxies([]string{"192.0.2.0/24"})
	r.Use(oncePerDay(keyfuncs.Address(ginmw.ClientIP)).Handler())
	r.GET("/", hi)
	visit(r,
		"GET /; X-Forwarded-For: 198.51.100.1, 203.0.113.7",
		"GET /; X-Forwarded-For: 198.51.100.2, 203.0.113.7", // the left address is forged
	)
	// Output:
	// GET /; X-Forwarded-For: 198.51.100.1, 203.0.113.7 200 hi
	// GET /; X-Forwarded-For: 198.51.100.2, 203.0.113.7 429 denied
}

func ExamplePlainText() {
	limiter := ginmw.MustNew(ginmw.Config{
		Rules: []ginmw.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerMinute(1), 1),
				Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer))},
		},
		Denied: ginmw.PlainText,
		// A clock that stands still, so that the output is always the same.
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}),
	})
	r := gin.New()
	r.GET("/", limiter.Handler(), hi)
	visit(r, "GET /", "GET /")
	// Output:
	// GET / 200 hi
	// GET / 429 Too many requests: retry in 60 seconds.
}
