package echomw

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

// Detach detaches the end of the request with context c from its handler: the caller must call end
// when the request is over. It is [nethttp.Detach] for this package's requests. end does not use c.
func Detach(c echo.Context) (end func(core.Result), ok bool) {
	return nethttp.Detach(c.Request().Context())
}

// Spend adds n units to the final cost of the request with context c under the named rule, and
// reports whether there was such a rule. Functions that have only c.Request().Context() may call
// [nethttp.Spend].
func Spend(c echo.Context, rule string, n int64) bool {
	return nethttp.Spend(c.Request().Context(), rule, n)
}

func withContext(c echo.Context, ctx context.Context) echo.Context {
	c.SetRequest(c.Request().WithContext(ctx))
	return c
}

// answered implements [gate.Config].Answered. If err is not nil and there is no answer, the error
// handler of the Echo is about to answer.
func answered(c echo.Context, err error) (status int, bytes int64, written bool) {
	switch r := c.Response(); {
	case r.Committed:
		return r.Status, r.Size, true
	case err == nil:
		return http.StatusOK, 0, false
	}
	return statusOf(err), 0, false
}

// statusOf returns the status that echo's own error handler answers err with, or 0 if err has none.
// Like that handler, it unwraps only an echo.HTTPError within another one.
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

// onStatus implements [gate.Config].OnStatus.
func onStatus(w http.ResponseWriter, c echo.Context, f func(int)) http.ResponseWriter {
	r := c.Response()
	r.Before(func() { f(r.Status) })
	return w
}
