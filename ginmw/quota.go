package ginmw

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units: see [nethttp.Limiter.Quota]. routes are methods and paths for which to ask, such as
// "GET /search". The rules see them in c.Request. c.FullPath stays that of the handler itself. Quota panics
// if l is nil or was not made by [New], or if a route is not a method and a path.
func (l *Limiter) Quota(routes ...string) gin.HandlerFunc {
	if l == nil || l.gate == nil {
		panic("ginmw: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return func(c *gin.Context) { _ = serve(c.Writer, c.Request, c) } // Denied returns nil
}

func withRequest(c *gin.Context, r *http.Request) *gin.Context {
	c.Request = r
	return c
}
