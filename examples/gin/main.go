// Gin limits a small API with gin: every client to 60 requests a minute, and some
// routes to less. The examples for the other frameworks answer in the same way.
package main

import (
	"cmp"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// client counts by the address at the other end of the connection. Behind a proxy,
// use keyfuncs.MustTrustedProxies or a similar function.
var client = ginmw.Lift(keyfuncs.Address(keyfuncs.Peer))

// caller counts by an API key that we have issued, or else by client.
var caller = keyfuncs.First(
	ginmw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1", "k2"))),
	client,
)

// limited returns false for health checks, which must always be answered.
func limited(c *gin.Context) bool { return c.Request.URL.Path != "/healthz" }

// limiter returns a limiter with one rule.
func limiter(rule ginmw.Rule) *ginmw.Limiter {
	return ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{rule}})
}

func main() {
	perClient := limiter(ginmw.Rule{
		Name:  "per-client",
		Limit: limits.SlidingWindow(limits.PerMinute(60)),
		Key:   core.When(limited, client),
	})
	login := limiter(ginmw.Rule{Name: "login", Limit: limits.SlidingLog(limits.PerMinute(5)), Key: client})
	search := limiter(ginmw.Rule{Name: "search", Limit: limits.TokenBucket(limits.PerSecond(10), 20), Key: caller})
	users := limiter(ginmw.Rule{
		Name:  "users",
		Limit: limits.SlidingWindow(limits.PerMinute(30)),
		Key:   keyfuncs.Join(ginmw.RoutePattern, client),
	})

	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	likeTheOthers(r)
	r.Use(gin.Recovery(), perClient.Handler()) // requests for missing pages count too
	r.Match([]string{"GET", "HEAD"}, "/healthz", text("ok"))
	r.POST("/login", login.Handler(), text("Welcome."))
	r.GET("/search", search.Handler(), text("Nothing found."))
	r.GET("/users/:id", users.Handler(), func(c *gin.Context) {
		c.String(http.StatusOK, "User %s.\n", c.Param("id"))
	})
	serve(r)
}

func text(s string) gin.HandlerFunc {
	return func(c *gin.Context) { c.String(http.StatusOK, s+"\n") }
}

// likeTheOthers makes gin answer requests without a route as net/http and chi do: no
// redirects, which no handler sees, and 405 for a wrong method. Escapes in paths stay.
func likeTheOthers(r *gin.Engine) {
	r.RedirectTrailingSlash = false
	r.HandleMethodNotAllowed = true
	r.NoRoute(gin.WrapF(http.NotFound))
	r.NoMethod(func(c *gin.Context) { c.AbortWithStatus(http.StatusMethodNotAllowed) })
	r.UseRawPath, r.UnescapePathValues = true, false
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
