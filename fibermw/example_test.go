package fibermw_test

import (
	"fmt"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

var client = keyfuncs.Address(fibermw.Peer)

// Every client may send 100 requests a day, 2 of them to log in. Each client may see
// each user's page 3 times.
var (
	perClient = fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(100), 100), Key: client,
	}}})
	logins = fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name: "login", Limit: limits.TokenBucket(limits.PerDay(2), 2), Key: client,
		OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
	}}})
	pages = fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name: "pages", Limit: limits.TokenBucket(limits.PerDay(3), 3),
		Key: keyfuncs.Join(fibermw.PathParam("id"), client),
	}}})
)

func newApp() *fiber.App {
	app := fiber.New()
	app.Use(perClient.Middleware())
	app.Post("/login", logins.Middleware(), func(c fiber.Ctx) error { return c.SendString("welcome") })
	users := app.Group("/users/:id", pages.Middleware())
	users.Get("/", func(c fiber.Ctx) error { return c.SendString("user " + c.Params("id")) })
	return app
}

func Example() {
	app := newApp()
	for _, request := range []string{"POST /login", "POST /login", "POST /login", "GET /users/1"} {
		var method, path string
		fmt.Sscan(request, &method, &path)
		w := ask(app, method, path)
		fmt.Println(request, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// POST /login 200 "per-client";q=100;w=86400, "login";q=2;w=86400
	// POST /login 200 "per-client";q=100;w=86400, "login";q=2;w=86400
	// POST /login 429 "per-client";q=100;w=86400, "login";q=2;w=86400
	// GET /users/1 200 "per-client";q=100;w=86400, "pages";q=3;w=86400
}
