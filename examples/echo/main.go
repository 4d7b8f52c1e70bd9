// Echo limits a small API with echo: every client to 60 requests a minute, and some routes to less.
// The examples chi and gin answer in the same way.
//
// It is for version 4 of echo; examples/echo5 is for version 5.
//
// To try it (only the lines that matter of each answer):
//
//	$ go run ./examples/echo
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
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

var (
	// client counts by the address of the connection. Behind a proxy, use
	// keyfuncs.MustTrustedProxies or a similar function.
	client = echomw.Lift(keyfuncs.Address(keyfuncs.Peer))

	// isProbe is true of health checks: a balancer takes a server out whose answer is a denial.
	// They have a limit of their own, since a flood of them is a flood, too.
	isProbe = echomw.LiftCondition(nethttp.MustProbes("/healthz"))

	// caller counts by an API key that we have issued, otherwise by client.
	caller = keyfuncs.First(
		echomw.Lift(keyfuncs.Known(keyfuncs.APIKey("X-API-Key"), keyfuncs.DigestSet("k1", "k2"))),
		client,
	)
)

var (
	perClient = echomw.MustNew(echomw.Config{Rules: []echomw.Rule{
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

	perLogin = echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
		Name:      "login",
		Limit:     limits.SlidingLog(limits.PerMinute(5)),
		Key:       client,
		OnFailure: core.FailClosed, // no log-in is better than unlimited guesses
	}}})

	perSearch = echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
		Name:  "search",
		Limit: limits.TokenBucket(limits.PerSecond(10), 20),
		Key:   caller,
	}}})

	// perUser counts /users/1 and /users/2 together: they have the same pattern.
	perUser = echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
		Name:  "users",
		Limit: limits.SlidingWindow(limits.PerMinute(30)),
		Key:   keyfuncs.Join(echomw.RoutePattern, client),
	}}})
)

func main() {
	e := echo.New()
	e.Use(perClient.Middleware()) // requests for missing pages count too
	e.GET("/healthz", health)
	e.HEAD("/healthz", health)
	e.POST("/login", login, perLogin.Middleware())
	e.GET("/search", search, perSearch.Middleware())
	e.GET("/users/:id", user, perUser.Middleware())
	e.RouteNotFound("/users/:id/*", notFound)              // otherwise echo takes "1/" for an id
	sameSite := http.NewCrossOriginProtection().Handler(e) // rejects forms of other sites
	if err := serve(sameSite); err != nil {
		log.Fatal(err)
	}
}

func health(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

func login(c echo.Context) error { return c.String(http.StatusOK, "Welcome.\n") }

func search(c echo.Context) error { return c.String(http.StatusOK, "Nothing found.\n") }

func user(c echo.Context) error {
	return c.String(http.StatusOK, "User "+c.Param("id")+".\n")
}

func notFound(echo.Context) error { return echo.ErrNotFound }

// serve answers on $ADDR, or on port 8080 if it is not set, until it is interrupted. Then requests
// in flight have ten seconds.
func serve(handler http.Handler) error {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), ":8080"))
	if err != nil {
		return err
	}
	log.Printf("listening on %v", listener.Addr())
	server := &http.Server{
		Handler:      handler,
		ReadTimeout:  10 * time.Second,
		WriteTimeout: 20 * time.Second, // from the header of a request to the end of the response
		IdleTimeout:  2 * time.Minute,
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}
