package echo5mw

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/watch"
	"github.com/weir-go/weir/nethttp"
)

// Detach detaches the end of the request with context c from its handler: the caller must call end
// when the request is over. It is [nethttp.Detach] for this package's requests. end does not use c.
func Detach(c *echo.Context) (end func(core.Result), ok bool) {
	return nethttp.Detach(c.Request().Context())
}

// Spend adds n units to the final cost of the request with context c under the named rule, and
// reports whether there was such a rule. Functions that have only c.Request().Context() may call
// [nethttp.Spend].
func Spend(c *echo.Context, rule string, n int64) bool {
	return nethttp.Spend(c.Request().Context(), rule, n)
}

func withContext(c *echo.Context, ctx context.Context) *echo.Context {
	c.SetRequest(c.Request().WithContext(ctx))
	return c
}

// answered implements [gate.Config].Answered. If err is not nil and there is no answer, the error
// handler of the Echo is about to answer.
func answered(c *echo.Context, err error) (status int, bytes int64, written bool) {
	r, unknown := echo.UnwrapResponse(c.Response())
	switch {
	case unknown == nil && r.Committed:
		return r.Status, r.Size, true
	case err != nil:
		return echo.StatusCode(err), 0, false
	case unknown != nil:
		return 0, 0, false
	}
	return http.StatusOK, 0, false
}

// onStatus implements [gate.Config].OnStatus. A writer that does not unwrap to that of echo gets one
// around it.
func onStatus(w http.ResponseWriter, c *echo.Context, f func(int)) http.ResponseWriter {
	if r, err := echo.UnwrapResponse(c.Response()); err == nil {
		r.Before(func() { f(r.Status) })
		return w
	}
	c.SetResponse(watch.OnStatus(c.Response(), f))
	return w
}
