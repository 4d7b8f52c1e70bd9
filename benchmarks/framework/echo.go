package framework

import (
	"net/http"

	echo4 "github.com/labstack/echo/v4"
	middleware4 "github.com/labstack/echo/v4/middleware"
	echo5 "github.com/labstack/echo/v5"
	middleware5 "github.com/labstack/echo/v5/middleware"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/keyfuncs"
	"golang.org/x/time/rate"
)

func serveEcho4(limiter func(store.Quota) echo4.MiddlewareFunc) func(store.Quota) http.Handler {
	return func(q store.Quota) http.Handler {
		e := echo4.New()
		if limiter != nil {
			e.Use(limiter(q))
		}
		e.GET("/v1/items", func(c echo4.Context) error { return c.NoContent(http.StatusNoContent) })
		return e
	}
}

func limitEcho4Own(q store.Quota) echo4.MiddlewareFunc {
	return middleware4.RateLimiter(middleware4.NewRateLimiterMemoryStoreWithConfig(
		middleware4.RateLimiterMemoryStoreConfig{Rate: rate.Every(q.Refill), Burst: int(q.Burst)},
	))
}

func limitEcho4(q store.Quota) echo4.MiddlewareFunc {
	return echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
		Name: "per-client", Limit: limit(q), Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}}).Middleware()
}

func serveEcho5(limiter func(store.Quota) echo5.MiddlewareFunc) func(store.Quota) http.Handler {
	return func(q store.Quota) http.Handler {
		e := echo5.New()
		if limiter != nil {
			e.Use(limiter(q))
		}
		e.GET("/v1/items", func(c *echo5.Context) error {
			return c.NoContent(http.StatusNoContent)
		})
		return e
	}
}

func limitEcho5Own(q store.Quota) echo5.MiddlewareFunc {
	return middleware5.RateLimiter(middleware5.NewRateLimiterMemoryStoreWithConfig(
		middleware5.RateLimiterMemoryStoreConfig{
			Rate: float64(rate.Every(q.Refill)), Burst: int(q.Burst),
		},
	))
}

func limitEcho5(q store.Quota) echo5.MiddlewareFunc {
	return echo5mw.MustNew(echo5mw.Config{Rules: []echo5mw.Rule{{
		Name: "per-client", Limit: limit(q), Key: echo5mw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}}).Middleware()
}
