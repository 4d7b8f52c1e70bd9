package ginmw

import (
	"context"
	"errors"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

// Detach leaves the end of the request with context c to the caller, who must call end
// when it is over. It is for a request that outlives its handler, such as a hijacked
// connection, or that is over before its handler. A panic of the handler does not end a
// detached request. end does not use c. Otherwise Detach is [nethttp.Detach], which
// reaches all limiters that the request has passed.
func Detach(c *gin.Context) (end func(core.Result), ok bool) {
	return nethttp.Detach(c.Request.Context())
}

// Spend adds n units to what the request with context c has really cost under the rule of
// that name, and reports whether it counted anywhere. It is [nethttp.Spend], which
// functions that have only c.Request.Context() may call.
func Spend(c *gin.Context, rule string, n int64) bool {
	return nethttp.Spend(c.Request.Context(), rule, n)
}

func withContext(c *gin.Context, ctx context.Context) *gin.Context {
	c.Request = c.Request.WithContext(ctx)
	return c
}

// answered implements [gate.Config].Answered. Where c has errors and no answer,
// middleware outside the limiter is about to answer.
func answered(c *gin.Context, _ error) (status int, bytes int64, written bool) {
	switch w := c.Writer; {
	case w.Written():
		return w.Status(), int64(max(0, w.Size())), true
	case len(c.Errors) == 0:
		return w.Status(), 0, false
	}
	var coder interface{ StatusCode() int }
	if errors.As(c.Errors.Last(), &coder) {
		return coder.StatusCode(), 0, false
	}
	return 0, 0, false
}
