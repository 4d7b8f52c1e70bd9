// Gin limits a small API with gin: every client to 60 requests a minute, and
// some routes further. A test compares its answers with those of the examples for
// the other frameworks: status, content and header fields, also for pages that do
// not exist, methods that no route takes and paths with escapes.
package main

import (
	"cmp"
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/breaker"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/redisbackend"
)

// client is who is counted: the address at the other end of the connection.
// Behind a proxy, use keyfuncs.MustTrustedProxies or another of its kind.
var client = ginmw.Lift(keyfuncs.Address(keyfuncs.Peer))

// caller is an API key that we have given out, or else the client.
var caller = keyfuncs.First(
	ginmw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.Secrets("k1", "k2"))),
	client,
)

// limited is false of health checks, which must always be answered.
func limited(c *gin.Context) bool { return c.Request.URL.Path != "/healthz" }

// limiter returns a limiter of one rule.
func limiter(state core.Backend, rule ginmw.Rule) *ginmw.Limiter {
	return ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{rule}, Backend: state})
}

func main() {
	state := backend()
	perClient := limiter(state, ginmw.Rule{Name: "per-client", Limit: core.SlidingWindow(core.PerMinute(60)), Key: core.When(limited, client)})
	login := limiter(state, ginmw.Rule{Name: "login", Limit: core.SlidingLog(core.PerMinute(5)), Key: client})
	search := limiter(state, ginmw.Rule{Name: "search", Limit: core.TokenBucket(core.PerSecond(10), 20), Key: caller})
	users := limiter(state, ginmw.Rule{Name: "users", Limit: core.SlidingWindow(core.PerMinute(30)), Key: keyfuncs.Join(ginmw.RoutePattern, client)})

	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	likeTheOthers(r)
	r.Use(gin.Recovery(), perClient.Handler()) // pages that do not exist count as well
	r.Match([]string{"GET", "HEAD"}, "/healthz", func(c *gin.Context) {
		c.String(http.StatusOK, "ok\n")
	})
	r.POST("/login", login.Handler(), func(c *gin.Context) {
		c.String(http.StatusOK, "Welcome.\n")
	})
	r.GET("/search", search.Handler(), func(c *gin.Context) {
		c.String(http.StatusOK, "Nothing found.\n")
	})
	r.GET("/users/:id", users.Handler(), func(c *gin.Context) {
		c.String(http.StatusOK, "User %s.\n", c.Param("id"))
	})
	serve(r)
}

// likeTheOthers has gin answer what is no route as net/http and chi do, instead of
// by redirects, which no handler sees, and by 404 for another method; and leave
// parts of the path escaped as they came.
func likeTheOthers(r *gin.Engine) {
	r.RedirectTrailingSlash = false
	r.HandleMethodNotAllowed = true
	r.NoRoute(gin.WrapF(http.NotFound))
	r.NoMethod(func(c *gin.Context) { c.AbortWithStatus(http.StatusMethodNotAllowed) })
	r.UseRawPath, r.UnescapePathValues = true, false
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
