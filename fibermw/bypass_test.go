package fibermw_test

import (
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/internal/proof/bypass"
	"github.com/weir-go/weir/policy"
)

func policed(config fiber.Config) func(testing.TB, string) http.Handler {
	return func(t testing.TB, file string) http.Handler {
		config.DisableHeadAutoRegister = true
		app := fiber.New(config)
		limit := fibermw.MustNew(fibermw.Config{Rules: bypass.Rules(t, file, policy.Names[fiber.Ctx]{
			Request: fibermw.Request,
			Route: func(c fiber.Ctx) string {
				route, _ := fibermw.RoutePattern(c)
				return route
			},
		})}).Middleware()
		app.Post("/api/login", limit, ofNetHTTP(bypass.Says(bypass.Login)))
		app.Post("/item/:id", limit, ofNetHTTP(bypass.Says(bypass.Item)))
		app.Get("/api/health", limit, ofNetHTTP(bypass.Says(bypass.Health)))
		app.Get("/api/*", limit, ofNetHTTP(bypass.Says(bypass.Data)))
		return serverOf(app)
	}
}

var sites = map[string]bypass.Site{
	"fiber":            policed(fiber.Config{}),
	"fiber, strict":    policed(fiber.Config{StrictRouting: true, CaseSensitive: true}),
	"fiber, unescapes": policed(fiber.Config{UnescapePath: true}),
}

func TestNoSpellingPassesALimit(t *testing.T) { bypass.Run(t, sites) }

func FuzzNoPathEscapes(f *testing.F) { bypass.Fuzz(f, sites) }
