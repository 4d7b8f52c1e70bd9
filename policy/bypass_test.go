package policy_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"
	"github.com/labstack/echo/v4"
	echomiddleware "github.com/labstack/echo/v4/middleware"

	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/internal/proof/bypass"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/policy"
)

func netHTTP(t testing.TB, file string) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /api/login", bypass.Says(bypass.Login))
	mux.Handle("POST /item/{id}", bypass.Says(bypass.Item))
	mux.Handle("GET /api/health", bypass.Says(bypass.Health))
	mux.Handle("GET /api/", bypass.Says(bypass.Data))
	return nethttp.MustNew(nethttp.Config{Rules: bypass.Rules(t, file, policy.Names[request]{})}).Handler(mux)
}

func chiWith(middleware ...func(http.Handler) http.Handler) bypass.Site {
	return func(t testing.TB, file string) http.Handler {
		r := chi.NewRouter()
		r.Use(middleware...)
		r.Use(nethttp.MustNew(nethttp.Config{Rules: bypass.Rules(t, file, policy.Names[request]{})}).Handler)
		r.Post("/api/login", bypass.Says(bypass.Login))
		r.Post("/item/{id}", bypass.Says(bypass.Item))
		r.Get("/api/health", bypass.Says(bypass.Health))
		r.Get("/api/*", bypass.Says(bypass.Data))
		return r
	}
}

func ginWith(configure func(*gin.Engine)) bypass.Site {
	return func(t testing.TB, file string) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		r := gin.New()
		configure(r)
		r.Use(ginmw.MustNew(ginmw.Config{Rules: bypass.Rules(t, file, policy.Names[*gin.Context]{
			Request: func(c *gin.Context) *http.Request { return c.Request },
			Route:   (*gin.Context).FullPath,
		})}).Handler())
		r.POST("/api/login", gin.WrapF(bypass.Says(bypass.Login)))
		r.POST("/item/:id", gin.WrapF(bypass.Says(bypass.Item)))
		r.GET("/api/health", gin.WrapF(bypass.Says(bypass.Health)))
		r.GET("/api/data", gin.WrapF(bypass.Says(bypass.Data)))
		r.GET("/api/v/*rest", gin.WrapF(bypass.Says(bypass.Data)))
		return r
	}
}

func echoWith(before ...echo.MiddlewareFunc) bypass.Site {
	return func(t testing.TB, file string) http.Handler {
		e := echo.New()
		e.Pre(before...)
		e.Use(echomw.MustNew(echomw.Config{Rules: bypass.Rules(t, file, policy.Names[echo.Context]{
			Request: echo.Context.Request,
			Route:   echo.Context.Path,
		})}).Middleware())
		e.POST("/api/login", echo.WrapHandler(bypass.Says(bypass.Login)))
		e.POST("/item/:id", echo.WrapHandler(bypass.Says(bypass.Item)))
		e.GET("/api/health", echo.WrapHandler(bypass.Says(bypass.Health)))
		e.GET("/api/*", echo.WrapHandler(bypass.Says(bypass.Data)))
		return e
	}
}

var sites = map[string]bypass.Site{
	"net/http":                netHTTP,
	"chi":                     chiWith(),
	"chi, StripSlashes":       chiWith(chimiddleware.StripSlashes),
	"chi, CleanPath":          chiWith(chimiddleware.CleanPath),
	"chi, GetHead":            chiWith(chimiddleware.GetHead),
	"gin":                     ginWith(func(*gin.Engine) {}),
	"gin, UseRawPath":         ginWith(func(r *gin.Engine) { r.UseRawPath = true }),
	"gin, raw values":         ginWith(func(r *gin.Engine) { r.UseRawPath, r.UnescapePathValues = true, false }),
	"gin, RemoveExtraSlash":   ginWith(func(r *gin.Engine) { r.RemoveExtraSlash = true }),
	"gin, RedirectFixedPath":  ginWith(func(r *gin.Engine) { r.RedirectFixedPath = true }),
	"echo":                    echoWith(),
	"echo, no trailing slash": echoWith(echomiddleware.RemoveTrailingSlash()),
}

func TestNoSpellingPassesALimit(t *testing.T) { bypass.Run(t, sites) }

func FuzzNoPathEscapes(f *testing.F) { bypass.Fuzz(f, sites) }
