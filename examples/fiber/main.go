// Fiber limits a small API with Fiber 3: every client to 60 requests a minute, and some routes to
// less. It is examples/echo for Fiber, and a module of its own.
//
// To try it (only the lines that matter of each answer):
//
//	$ go -C examples/fiber run .
//	$ curl -i localhost:8080/users/7
//	HTTP/1.1 200 OK
//	Ratelimit: "per-client";r=59;t=59, "users";r=29;t=58
//	User 7.
//	$ curl -s -o /dev/null -w '%{http_code}\n' -X POST 'localhost:8080/login?[1-6]' | uniq -c
//	      5 200
//	      1 429
//	$ curl -i -X POST localhost:8080/login
//	HTTP/1.1 429 Too Many Requests
//	Ratelimit: "per-client";r=52;t=52, "login";r=0;t=60
//	Retry-After: 60
//	$ curl -i -H 'X-API-Key: k1' localhost:8080/search
//	HTTP/1.1 200 OK
//	Ratelimit-Policy: "per-client";q=60;w=60, "search";q=20;w=2
//	Nothing found.
package main

import (
	"cmp"
	"context"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

var (
	// client counts by the address of the connection. Behind a proxy, use
	// keyfuncs.Address(fibermw.Lift(keyfuncs.MustTrustedProxies(…))) or a similar function.
	client = keyfuncs.Address(fibermw.Peer)

	// isProbe is true of health checks: a balancer takes a server out whose answer is a denial.
	// They have a limit of their own, since a flood of them is a flood, too.
	isProbe = fibermw.LiftCondition(nethttp.MustProbes("/healthz"))

	// caller counts by an API key that we have issued, otherwise by client.
	caller = keyfuncs.First(
		fibermw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1", "k2"))),
		client,
	)
)

var (
	perClient = fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{
		{
			Name:  "per-client",
			Limit: limits.SlidingWindow(limits.PerMinute(60)),
			Key:   core.Unless(isProbe, client),
		},
		{
			Name:  "probes",
			Limit: limits.SlidingWindow(limits.PerMinute(600)),
			Key:   core.When(isProbe, client),
		},
	}})

	perLogin = fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name:      "login",
		Limit:     limits.SlidingLog(limits.PerMinute(5)),
		Key:       client,
		OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
	}}})

	perSearch = fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name:  "search",
		Limit: limits.TokenBucket(limits.PerSecond(10), 20),
		Key:   caller,
	}}})

	// perUser counts /users/1 and /users/2 together: they have the same pattern.
	perUser = fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{{
		Name:  "users",
		Limit: limits.SlidingWindow(limits.PerMinute(30)),
		Key:   keyfuncs.Join(fibermw.RoutePattern, client),
	}}})
)

func main() {
	app := fiber.New(fiber.Config{
		StrictRouting:           true, // otherwise /users/1/ is /users/1
		CaseSensitive:           true,
		DisableHeadAutoRegister: true,
		ReadTimeout:             10 * time.Second,
		WriteTimeout:            20 * time.Second, // after the handlers
		IdleTimeout:             2 * time.Minute,
	})
	app.Use(sameSite)
	app.Use(perClient.Middleware()) // requests for missing pages count too
	app.Get("/healthz", health)
	app.Head("/healthz", health)
	app.Post("/login", perLogin.Middleware(), login)
	app.Get("/search", perSearch.Middleware(), search)
	app.Get("/users/:id", perUser.Middleware(), user)
	if err := serve(app); err != nil {
		log.Fatal(err)
	}
}

var protection = http.NewCrossOriginProtection()

var check = fibermw.Lift(func(r *http.Request) (bool, error) { return true, protection.Check(r) })

// sameSite rejects forms of other sites.
func sameSite(c fiber.Ctx) error {
	if _, err := check(c); err != nil {
		return fiber.ErrForbidden
	}
	return c.Next()
}

func health(c fiber.Ctx) error { return c.SendString("ok\n") }

func login(c fiber.Ctx) error { return c.SendString("Welcome.\n") }

func search(c fiber.Ctx) error { return c.SendString("Nothing found.\n") }

func user(c fiber.Ctx) error {
	id, err := url.PathUnescape(c.Params("id"))
	if err != nil {
		return fiber.ErrBadRequest
	}
	return c.SendString("User " + id + ".\n")
}

// serve answers on $ADDR, or on port 8080 if it is not set, until it is interrupted. Then requests
// in flight have ten seconds.
func serve(app *fiber.App) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	quiet := fiber.ListenConfig{DisableStartupMessage: true}
	go func() { failed <- app.Listener(listener, quiet) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return app.ShutdownWithTimeout(10 * time.Second)
}
