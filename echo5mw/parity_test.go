package echo5mw_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
)

func TestParity(t *testing.T) {
	parity.Run(t, parity.Adapter[*echo.Context]{
		Serve: serve,
		New: func(rules []echo5mw.Rule) (parity.Limiter[*echo.Context], error) {
			return echo5mw.New(echo5mw.Config{Rules: rules})
		},
		Panics: map[string]func(){
			"MustNew": func() { echo5mw.MustNew(echo5mw.Config{}) },
			"nil":     func() { (*echo5mw.Limiter)(nil).Middleware() },
			"zero":    func() { new(echo5mw.Limiter).Middleware() },
		},
		Request:       func(c *echo.Context) *http.Request { return c.Request() },
		Lift:          echo5mw.Lift[string],
		LiftCondition: echo5mw.LiftCondition,
		LiftLimit:     echo5mw.Lift[limits.Limit],
		RoutePattern:  echo5mw.RoutePattern,
		PathParam:     echo5mw.PathParam,
		ErrorsTravel:  true,
		ContextValue:  echo5mw.ContextValue,
	})
}

func serve(t *testing.T, app parity.App[*echo.Context]) http.Handler {
	limiter := func(c *parity.Config[*echo.Context]) []echo.MiddlewareFunc {
		if c == nil {
			return nil
		}
		config := echo5mw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, SkipPreflight: c.SkipPreflight, MaxWaiting: c.MaxWaiting,
			OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(c *echo.Context, o core.Outcome) error {
				parity.Sorry(c.Response(), o)
				return nil
			}
		}
		if c.PlainText {
			config.Denied = echo5mw.PlainText
		}
		if c.Boom {
			config.Denied = func(*echo.Context, core.Outcome) error { panic("boom") }
		}
		limit, err := echo5mw.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if c.Made != nil {
			c.Made(limit)
		}
		return []echo.MiddlewareFunc{limit.Middleware()}
	}
	hello := func(c *echo.Context) error { parity.Hello(c.Response()); return nil }
	user := func(c *echo.Context) error { parity.User(c.Response(), c.Param("id")); return nil }
	site, route := limiter(app.Site), limiter(app.Route)
	if app.Twice {
		route = site
	}
	recoverer := middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})

	e := echo.New()
	otherwise := e.HTTPErrorHandler
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		if err == echo.ErrNotFound {
			parity.NotFound(c.Response())
			return
		}
		if err == echo.ErrMethodNotAllowed {
			parity.NotAllowed(c.Response())
			return
		}
		otherwise(c, err)
	}
	if app.Recover == parity.Outside {
		e.Use(recoverer)
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if user := c.Request().Header.Get("X-User"); user != "" {
				c.Set("user", user)
			}
			return next(c)
		}
	})
	if app.Shed != nil {
		e.Use(echo5mw.Shed(app.Shed))
	}
	if app.TimeOut == parity.Outside {
		e.Use(middleware.ContextTimeout(parity.TimeOut))
	}
	e.Use(site...)
	if app.TimeOut == parity.Inside {
		e.Use(middleware.ContextTimeout(parity.TimeOut))
	}
	if app.Recover == parity.Inside {
		e.Use(recoverer)
	}
	e.GET("/hello", hello)
	e.OPTIONS("/hello", hello)
	e.GET("/left", func(c *echo.Context) error {
		o, ok := echo5mw.OutcomeFrom(c)
		parity.Left(c.Response(), o, ok)
		return nil
	}, route...)
	e.GET("/conflict", func(*echo.Context) error { return parity.ErrConflict })
	e.GET("/breaks", func(*echo.Context) error { return parity.ErrBroken })
	e.GET("/users/:id", user, route...)
	e.POST("/login", hello, route...)
	api := e.Group("/api", limiter(app.Group)...)
	api.GET("/items/:id", user)
	api.GET("/both/:id", user, route...)
	for path, handler := range app.Extra {
		e.GET(path, echo.WrapHandler(handler), route...)
	}
	return e
}
