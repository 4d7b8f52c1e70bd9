package fibermw_test

import (
	"errors"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/keyfuncs"
)

func TestAKeyByRouteBeforeRoutingIsAMistake(t *testing.T) {
	app := fiber.New()
	var got [2]error
	ask := func(c fiber.Ctx) error {
		_, got[0] = fibermw.RoutePattern(c)
		_, got[1] = fibermw.PathParam("id")(c)
		return c.Next()
	}
	app.Use(ask)
	app.Get("/early/:id", hi)
	want(t, app, "GET", "/early/1", 200)
	for _, err := range got {
		if !errors.Is(err, keyfuncs.ErrTooEarly) {
			t.Errorf("in Use: %v", err)
		}
	}
	app = fiber.New()
	app.Use("/under/:id", ask)
	app.Get("/under/:id", hi)
	app.Get("/routes/:id", ask, hi)
	app.Get("/none", ask, hi)
	want(t, app, "GET", "/under/1", 200)
	if !errors.Is(got[0], keyfuncs.ErrTooEarly) || got[1] != nil {
		t.Errorf("in Use with the parameter: %v", got)
	}
	want(t, app, "GET", "/routes/1", 200)
	if got != [2]error{} {
		t.Errorf("in a route: %v", got)
	}
	want(t, app, "GET", "/none", 200)
	if got != [2]error{nil, core.ErrAbsent} {
		t.Errorf("in a route without the parameter: %v", got)
	}
}
