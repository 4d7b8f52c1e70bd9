// Echo limits a small API with echo: every client to 60 requests a minute, and some
// routes to less. The examples for the other frameworks answer in the same way.
//
// For version 4 of echo, import echomw and echo/v4, and write echo.Context for
// *echo.Context.
package main

import (
	"cmp"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// client counts by the address at the other end of the connection. Behind a proxy,
// use keyfuncs.MustTrustedProxies or a similar function.
var client = echo5mw.Lift(keyfuncs.Address(keyfuncs.Peer))

// caller counts by an API key that we have issued, or else by client.
var caller = keyfuncs.First(
	echo5mw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1", "k2"))),
	client,
)

// limited returns false for health checks, which must always be answered.
func limited(c *echo.Context) bool { return c.Request().URL.Path != "/healthz" }

// limiter returns a limiter with one rule.
func limiter(rule echo5mw.Rule) *echo5mw.Limiter {
	return echo5mw.MustNew(echo5mw.Config{Rules: []echo5mw.Rule{rule}})
}

func main() {
	perClient := limiter(echo5mw.Rule{
		Name:  "per-client",
		Limit: limits.SlidingWindow(limits.PerMinute(60)),
		Key:   core.When(limited, client),
	})
	login := limiter(echo5mw.Rule{Name: "login", Limit: limits.SlidingLog(limits.PerMinute(5)), Key: client})
	search := limiter(echo5mw.Rule{Name: "search", Limit: limits.TokenBucket(limits.PerSecond(10), 20), Key: caller})
	users := limiter(echo5mw.Rule{
		Name:  "users",
		Limit: limits.SlidingWindow(limits.PerMinute(30)),
		Key:   keyfuncs.Join(echo5mw.RoutePattern, client),
	})

	e := echo.New()
	e.Use(perClient.Middleware()) // requests for missing pages count too
	e.Match([]string{"GET", "HEAD"}, "/healthz", text("ok"))
	e.POST("/login", text("Welcome."), login.Middleware())
	e.GET("/search", text("Nothing found."), search.Middleware())
	e.GET("/users/:id", func(c *echo.Context) error {
		return text("User " + c.Param("id") + ".")(c)
	}, users.Middleware())
	// Otherwise echo takes "1/" for an id.
	e.RouteNotFound("/users/:id/*", func(*echo.Context) error { return echo.ErrNotFound })
	serve(e)
}

// text is c.String with charset=utf-8 in lower case.
func text(s string) echo.HandlerFunc {
	return func(c *echo.Context) error {
		return c.Blob(http.StatusOK, "text/plain; charset=utf-8", []byte(s+"\n"))
	}
}

// serve answers on $ADDR, on port 8080 if it is not set.
func serve(handler http.Handler) {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
