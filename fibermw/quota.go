package fibermw

import (
	"net/http"

	"github.com/gofiber/fiber/v3"
)

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units: see [nethttp.Limiter.Quota]. routes are methods and paths for which to ask, such as
// "GET /search". Lifted functions see them, and those of fiber.Ctx see the request of the handler
// itself. Quota panics if l is nil or was not made by [New], or if a route is not a method and a
// path.
func (l *Limiter) Quota(routes ...string) fiber.Handler {
	if l == nil || l.gate == nil {
		panic("fibermw: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return func(c fiber.Ctx) error {
		x := begin(c)
		err := serve(x, Request(c), c)
		x.end()
		return err
	}
}

// withRequest makes r the request that lifted functions share.
func withRequest(c fiber.Ctx, r *http.Request) fiber.Ctx {
	c.RequestCtx().UserValue(exchangeKey{}).(*exchange).bridged = r
	return c
}
