package echo5mw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

var client = echo5mw.Lift(keyfuncs.Address(keyfuncs.Peer))

// Every client may send 100 requests a day, 2 of them to log in. Each client may see
// each user's page 3 times.
var (
	perClient = echo5mw.MustNew(echo5mw.Config{Rules: []echo5mw.Rule{{
		Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(100), 100), Key: client,
	}}})
	logins = echo5mw.MustNew(echo5mw.Config{Rules: []echo5mw.Rule{{
		Name: "login", Limit: limits.TokenBucket(limits.PerDay(2), 2), Key: client,
		OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
	}}})
	pages = echo5mw.MustNew(echo5mw.Config{Rules: []echo5mw.Rule{{
		Name: "pages", Limit: limits.TokenBucket(limits.PerDay(3), 3),
		Key: keyfuncs.Join(echo5mw.PathParam("id"), client),
	}}})
)

func newRouter() http.Handler {
	e := echo.New()
	e.Use(perClient.Middleware())
	e.POST("/login", func(c *echo.Context) error {
		return c.String(http.StatusOK, "welcome")
	}, logins.Middleware())
	users := e.Group("/users/:id", pages.Middleware())
	users.GET("", func(c *echo.Context) error {
		return c.String(http.StatusOK, "user "+c.Param("id"))
	})
	return e
}

func Example() {
	router := newRouter() // the Handler of an http.Server
	for _, request := range []string{"POST /login", "POST /login", "POST /login", "GET /users/1"} {
		var method, path string
		fmt.Sscan(request, &method, &path)
		w := httptest.NewRecorder()
		router.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		fmt.Println(request, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// POST /login 200 "per-client";q=100;w=86400, "login";q=2;w=86400
	// POST /login 200 "per-client";q=100;w=86400, "login";q=2;w=86400
	// POST /login 429 "per-client";q=100;w=86400, "login";q=2;w=86400
	// GET /users/1 200 "per-client";q=100;w=86400, "pages";q=3;w=86400
}
