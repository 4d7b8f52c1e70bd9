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

// fasthttp accepts targets that net/http reads in another way, or refuses.
func TestNoTargetThatNetHTTPReadsOtherwisePassesALimit(t *testing.T) {
	for target, of := range map[string]struct {
		match     string
		unescapes bool
	}{
		"/api/login#x":       {"/api/login", false},
		"/api/login#x?y":     {"/api/login", false},
		"//host/api/login":   {"/api/", false}, // without Host
		"/%61pi/login?#":     {"/api/login", true},
		"/%61pi/%zz":         {"/api/", true},
		"/%61pi%2Flogin/%":   {"/api/", true},
		"/api/log+in/%zz":    {"/api/log%20in/", true},
		"/api/log%2Bin/%41%": {"/api/log+in/", true},
	} {
		app := fiber.New(fiber.Config{UnescapePath: of.unescapes})
		app.Use(fibermw.MustNew(fibermw.Config{Rules: bypass.Rules(t,
			"version: 1\nclient: {peer: true}\nrules:\n  - name: a\n    key: address\n    limit: 1/day\n"+
				"    match: "+of.match+"\n", policy.Names[fiber.Ctx]{Request: fibermw.Request},
		)}).Middleware())
		reached := 0
		app.All("/api/*", func(fiber.Ctx) error { reached++; return nil })
		for range 2 {
			converse(t, app, "GET "+target+" HTTP/1.0\r\n\r\n")
		}
		if reached != 1 {
			t.Errorf("%s, as match: %s, reached the handler %d times", target, of.match, reached)
		}
	}
}

func FuzzNoPathEscapes(f *testing.F) { bypass.Fuzz(f, sites) }
