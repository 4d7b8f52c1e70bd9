package framework

import (
	"net/http"
	"time"

	ratelimit "github.com/JGLTechnologies/gin-rate-limit"
	"github.com/gin-gonic/gin"
	"github.com/ulule/limiter/v3"
	ululegin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/keyfuncs"
)

// serveGin trusts no proxy, so that c.ClientIP, which the peers use, is the connection's address.
func serveGin(limiter func(store.Quota) gin.HandlerFunc) func(store.Quota) http.Handler {
	return func(q store.Quota) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		r.SetTrustedProxies(nil)
		if limiter != nil {
			r.Use(limiter(q))
		}
		r.GET("/v1/items", func(c *gin.Context) { c.Status(http.StatusNoContent) })
		return r
	}
}

func limitUlule(q store.Quota) gin.HandlerFunc {
	return ululegin.NewMiddleware(
		limiter.New(memory.NewStore(), limiter.Rate{Period: q.Window, Limit: q.Burst}))
}

// limitGinRateLimit uses the key function and denial of its README.
func limitGinRateLimit(q store.Quota) gin.HandlerFunc {
	requests := ratelimit.InMemoryStore(&ratelimit.InMemoryOptions{
		Rate: q.Window, Limit: uint(q.Burst),
	})
	return ratelimit.RateLimiter(requests, &ratelimit.Options{
		ErrorHandler: func(c *gin.Context, info ratelimit.Info) {
			c.String(http.StatusTooManyRequests,
				"Too many requests. Try again in "+time.Until(info.ResetTime).String())
		},
		KeyFunc: func(c *gin.Context) string { return c.ClientIP() },
	})
}

func limitGin(q store.Quota) gin.HandlerFunc {
	return ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{{
		Name: "per-client", Limit: limit(q), Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}}).Handler()
}
