package echomw

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units: see [nethttp.Limiter.Quota]. routes are methods and paths for which to ask, such as
// "GET /search". The rules see them in c.Request. c.Path stays that of the handler itself. Quota panics
// if l is nil or was not made by [New], or if a route is not a method and a path.
func (l *Limiter) Quota(routes ...string) echo.HandlerFunc {
	if l == nil || l.gate == nil {
		panic("echomw: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return func(c echo.Context) error { return serve(c.Response(), c.Request(), c) }
}

func withRequest(c echo.Context, r *http.Request) echo.Context {
	c.SetRequest(r)
	return c
}
