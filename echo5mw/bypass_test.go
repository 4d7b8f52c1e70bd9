package echo5mw_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/internal/proof/bypass"
	"github.com/weir-go/weir/policy"
)

func policed(t testing.TB, file string) http.Handler {
	e := echo.New()
	e.Use(echo5mw.MustNew(echo5mw.Config{Rules: bypass.Rules(t, file, policy.Names[*echo.Context]{
		Request: (*echo.Context).Request,
		Route:   (*echo.Context).Path,
	})}).Middleware())
	e.POST("/api/login", echo.WrapHandler(bypass.Says(bypass.Login)))
	e.POST("/item/:id", echo.WrapHandler(bypass.Says(bypass.Item)))
	e.GET("/api/health", echo.WrapHandler(bypass.Says(bypass.Health)))
	e.GET("/api/*", echo.WrapHandler(bypass.Says(bypass.Data)))
	return e
}

var sites = map[string]bypass.Site{"echo v5": policed}

func TestNoSpellingPassesALimit(t *testing.T) { bypass.Run(t, sites) }

func FuzzNoPathEscapes(f *testing.F) { bypass.Fuzz(f, sites) }
