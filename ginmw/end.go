package ginmw

import (
	"context"
	"errors"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

// Detach detaches the end of the request with context c from its handler: the caller must call end
// when the request is over. It is [nethttp.Detach] for this package's requests. end does not use c.
func Detach(c *gin.Context) (end func(core.Result), ok bool) {
	return nethttp.Detach(c.Request.Context())
}

// Spend adds n units to the final cost of the request with context c under the named rule, and
// reports whether there was such a rule. Functions that have only c.Request.Context() may call
// [nethttp.Spend].
func Spend(c *gin.Context, rule string, n int64) bool {
	return nethttp.Spend(c.Request.Context(), rule, n)
}

func withContext(c *gin.Context, ctx context.Context) *gin.Context {
	c.Request = c.Request.WithContext(ctx)
	return c
}

// answered implements [gate.Config].Answered. If c has errors and no answer, middleware outside the
// limiter is about to answer.
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
