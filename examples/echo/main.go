// Echo limits a small API with echo: every client to 60 requests a minute, and
// some routes further. A test compares its answers with those of the examples for
// the other frameworks: status, content and header fields, also for pages that do
// not exist, methods that no route takes and paths with escapes.
//
// For version 4 of echo, import echomw and echo/v4, drop the * of *echo.Context, and
// begin with echo.New, whose router takes no configuration.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/redisbackend"
)

// client is who is counted: the address at the other end of the connection.
// Behind a proxy, use keyfuncs.MustTrustedProxies or another of its kind.
var client = echo5mw.Lift(keyfuncs.Address(keyfuncs.Peer))

// caller is an API key that we have given out, or else the client.
var caller = keyfuncs.First(
	echo5mw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.Secrets("k1", "k2"))),
	client,
)

// limited is false of health checks, which must always be answered.
func limited(c *echo.Context) bool { return c.Request().URL.Path != "/healthz" }

// limiter returns a limiter of one rule.
func limiter(state core.Backend, rule echo5mw.Rule) *echo5mw.Limiter {
	return echo5mw.MustNew(echo5mw.Config{Rules: []echo5mw.Rule{rule}, Backend: state})
}

func main() {
	state := backend()
	perClient := limiter(state, echo5mw.Rule{Name: "per-client", Limit: core.SlidingWindow(core.PerMinute(60)), Key: core.When(limited, client)})
	login := limiter(state, echo5mw.Rule{Name: "login", Limit: core.SlidingLog(core.PerMinute(5)), Key: client})
	search := limiter(state, echo5mw.Rule{Name: "search", Limit: core.TokenBucket(core.PerSecond(10), 20), Key: caller})
	users := limiter(state, echo5mw.Rule{Name: "users", Limit: core.SlidingWindow(core.PerMinute(30)), Key: keyfuncs.Join(echo5mw.RoutePattern, client)})

	e := newEcho()
	e.Use(perClient.Middleware()) // pages that do not exist count as well
	e.Match([]string{"GET", "HEAD"}, "/healthz", func(c *echo.Context) error {
		return text(c, "ok\n")
	})
	e.POST("/login", func(c *echo.Context) error {
		return text(c, "Welcome.\n")
	}, login.Middleware())
	e.GET("/search", func(c *echo.Context) error {
		return text(c, "Nothing found.\n")
	}, search.Middleware())
	e.GET("/users/:id", func(c *echo.Context) error {
		return text(c, fmt.Sprintf("User %s.\n", c.Param("id")))
	}, users.Middleware())
	e.RouteNotFound("/users/:id/*", notFound) // or echo takes "1/" for an id
	serve(e)
}

// text is c.String without the capitals of charset=UTF-8.
func text(c *echo.Context, s string) error {
	return c.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(s))
}

// newEcho returns an Echo that answers what is no route as net/http and chi do,
// instead of by JSON, and by 204 for OPTIONS.
func newEcho() *echo.Echo {
	return echo.NewWithConfig(echo.Config{Router: echo.NewRouter(echo.RouterConfig{
		NotFoundHandler:         notFound,
		MethodNotAllowedHandler: notAllowed,
		OptionsMethodHandler:    notAllowed,
	})})
}

var notFound = echo.WrapHandler(http.NotFoundHandler())

func notAllowed(c *echo.Context) error {
	allow, _ := c.Get(echo.ContextKeyHeaderAllow).(string)
	c.Response().Header().Set("Allow", strings.TrimPrefix(allow, "OPTIONS, "))
	return c.NoContent(http.StatusMethodNotAllowed)
}

// backend keeps the state of all limiters: in Redis, which all instances share,
// if REDIS_URL is set, and otherwise in this process. While Redis is away, each
// instance limits by itself. The scopes of the rules, which are their names, keep
// them apart.
func backend() core.Backend {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		return core.NewMemory(core.MemoryOptions{})
	}
	b, err := redisbackend.Open(url, redisbackend.Options{Prefix: "example"})
	if err != nil {
		log.Fatalf("REDIS_URL: %v", err)
	}
	logging.Disable() // go-redis would log every attempt, the breaker logs changes
	return breaker.NewStack(b, breaker.Options{})
}

// serve answers on $ADDR until the process is interrupted, then lets the
// requests under way finish.
func serve(handler http.Handler) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := server.Serve(listener); err != http.ErrServerClosed {
			log.Fatal(err)
		}
	}()

	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
}
