package fibermw_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func daily(n int64) []fibermw.Rule {
	return []fibermw.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(n)), Key: keyfuncs.Address(fibermw.Peer),
	}}
}

// behind returns a function that asks an app behind limiter, and prints the status.
func behind(limiter *fibermw.Limiter) (get func()) {
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hi") })
	return func() {
		w := ask(app, "GET", "/")
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
}

// A limit is raised while the program runs. What is used stays used.
func ExampleLimiter_Replace() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: daily(1)})
	get := behind(limiter)
	get()
	get()
	if err := limiter.Replace(daily(2)); err != nil {
		fmt.Println("the old rules stay:", err)
	}
	get()
	// Output:
	// 200 "per-client";q=1;w=86400
	// 429 "per-client";q=1;w=86400
	// 200 "per-client";q=2;w=86400
}

// A limit is raised for an hour.
func ExampleLimiter_Override() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: daily(1)})
	get := behind(limiter)
	err := limiter.Override("per-client", core.Override{
		Limit: limits.FixedWindow(limits.PerDay(5)), Until: time.Now().Add(time.Hour), Why: "a launch",
	})
	fmt.Println(err)
	get()
	// Output:
	// <nil>
	// 200 "per-client";q=5;w=86400
}

// A client that was denied by mistake is let in at once.
func ExampleLimiter_ResetKey() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: daily(1)})
	get := behind(limiter)
	get()
	get()
	if err := limiter.ResetKey(context.Background(), "per-client", "192.0.2.1"); err != nil {
		fmt.Println(err)
	}
	get()
	// Output:
	// 200 "per-client";q=1;w=86400
	// 429 "per-client";q=1;w=86400
	// 200 "per-client";q=1;w=86400
}

// A page that shows a client what it has left, and takes nothing.
func ExampleLimiter_Explain() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: daily(5)})
	app := fiber.New()
	app.Get("/left", func(c fiber.Ctx) error {
		outcome := limiter.Explain(c)
		return c.SendString(fmt.Sprint(outcome.Allowed(), " ", outcome.Len()))
	})
	fmt.Println(ask(app, "GET", "/left").Body)
	fmt.Println(ask(app, "GET", "/left").Body)
	// Output:
	// true 1
	// true 1
}

// An operator asks about a key.
func ExampleLimiter_ExplainKey() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: daily(5)})
	get := behind(limiter)
	get()
	decision, err := limiter.ExplainKey(context.Background(), "per-client", "192.0.2.1", limits.Limit{})
	fmt.Println(decision.Allowed, decision.Remaining, err)
	// Output:
	// 200 "per-client";q=5;w=86400
	// true 4 <nil>
}

func ExampleLimiter_State() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: daily(5)})
	state := limiter.State()
	fmt.Println(state.Rules[0].Name, state.Rules[0].Limit, state.Held)
	// Output: per-client fixed-window 5/1d 0
}
