package echo5mw_test

import (
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A client asks how much it has left. Asking costs nothing.
func ExampleLimiter_Quota() {
	limiter := echo5mw.MustNew(echo5mw.Config{Rules: []echo5mw.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(100)),
		Key: echo5mw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}})
	e := echo.New()
	e.GET("/rate_limit", limiter.Quota())
	e.GET("/", func(c *echo.Context) error { return c.NoContent(204) }, limiter.Middleware())

	ask := func(path string) string {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	ask("/")
	before, _, _ := strings.Cut(ask("/rate_limit"), `,"reset":`) // the end of the day
	fmt.Println(before)
	// Output:
	// {"resources":{"per-client":{"limit":100,"used":1,"remaining":99
}
