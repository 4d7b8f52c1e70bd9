package fibermw_test

import (
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// A client asks how much it has left. Asking costs nothing.
func ExampleLimiter_Quota() {
	limiter := fibermw.MustNew(fibermw.Config{Rules: daily(100)})
	app := fiber.New()
	app.Get("/rate_limit", limiter.Quota())
	app.Get("/", limiter.Middleware(), func(c fiber.Ctx) error { return c.SendString("hi") })
	ask(app, "GET", "/")
	quota := ask(app, "GET", "/rate_limit").Body.String()
	before, _, _ := strings.Cut(quota, `,"reset":`) // the end of the day
	fmt.Println(before)
	// Output:
	// {"resources":{"per-client":{"limit":100,"used":1,"remaining":99
}

func daily(n int64) []fibermw.Rule {
	return []fibermw.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(n)), Key: keyfuncs.Address(fibermw.Peer),
	}}
}
