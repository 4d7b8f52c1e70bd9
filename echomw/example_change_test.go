package echomw_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A limit is raised while the program runs. What is used stays used.
func ExampleLimiter_Replace() {
	perClient := func(n int64) []echomw.Rule {
		return []echomw.Rule{{
			Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(n)),
			Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
		}}
	}
	limiter := echomw.MustNew(echomw.Config{Rules: perClient(1)})
	e := echo.New()
	e.Use(limiter.Middleware())
	e.GET("/", func(c echo.Context) error { return c.NoContent(200) })
	ask := func() {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	ask()
	ask()
	if err := limiter.Replace(perClient(2)); err != nil {
		fmt.Println("the old rules stay:", err)
	}
	ask()
	// Output:
	// 200 "per-client";q=1;w=86400
	// 429 "per-client";q=1;w=86400
	// 200 "per-client";q=2;w=86400
}

// A client that was denied by mistake is let in at once.
func ExampleLimiter_ResetKey() {
	limiter := echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
	}}})
	e := echo.New()
	e.Use(limiter.Middleware())
	e.GET("/", func(c echo.Context) error { return c.NoContent(200) })
	ask := func() {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code)
	}
	ask()
	ask()
	if err := limiter.ResetKey(context.Background(), "per-client", "192.0.2.1"); err != nil {
		fmt.Println(err)
	}
	ask()
	// Output:
	// 200
	// 429
	// 200
}
