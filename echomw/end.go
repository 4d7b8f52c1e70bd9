package echomw

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

// Detach leaves the end of the request with context c to the caller, who must call end
// when it is over. It is for a request that outlives its handler, such as a hijacked
// connection, or that is over before its handler. A panic of the handler does not end a
// detached request. end does not use c. Otherwise Detach is [nethttp.Detach], which
// reaches all limiters that the request has passed.
func Detach(c echo.Context) (end func(core.Result), ok bool) {
	return nethttp.Detach(c.Request().Context())
}

// Spend adds n units to what the request with context c has really cost under the rule of
// that name, and reports whether it counted anywhere. It is [nethttp.Spend], which
// functions that have only c.Request().Context() may call.
func Spend(c echo.Context, rule string, n int64) bool {
	return nethttp.Spend(c.Request().Context(), rule, n)
}

func withContext(c echo.Context, ctx context.Context) echo.Context {
	c.SetRequest(c.Request().WithContext(ctx))
	return c
}

// answered implements [gate.Config].Answered. Where err is not nil and there is no
// answer, the error handler of the Echo is about to answer.
func answered(c echo.Context, err error) (status int, bytes int64, written bool) {
	switch r := c.Response(); {
	case r.Committed:
		return r.Status, r.Size, true
	case err == nil:
		return http.StatusOK, 0, false
	}
	return statusOf(err), 0, false
}

// statusOf returns the status with which echo's own error handler answers err, 0 if it
// finds none in it. It does not look into errors that wrap an echo.HTTPError, other than
// another one.
func statusOf(err error) int {
	e, ok := err.(*echo.HTTPError)
	if !ok {
		return 0
	}
	if internal, ok := e.Internal.(*echo.HTTPError); ok {
		e = internal
	}
	return e.Code
}
