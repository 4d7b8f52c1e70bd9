package echomw_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
)

func TestParity(t *testing.T) {
	parity.Run(t, parity.Adapter[echo.Context]{
		Serve: serve,
		New: func(rules []echomw.Rule) (parity.Limiter[echo.Context], error) {
			return echomw.New(echomw.Config{Rules: rules})
		},
		Panics: map[string]func(){
			"MustNew": func() { echomw.MustNew(echomw.Config{}) },
			"nil":     func() { (*echomw.Limiter)(nil).Middleware() },
			"zero":    func() { new(echomw.Limiter).Middleware() },
		},
		Request:       func(c echo.Context) *http.Request { return c.Request() },
		Lift:          echomw.Lift[string],
		LiftCondition: echomw.LiftCondition,
		LiftLimit:     echomw.Lift[limits.Limit],
		RoutePattern:  echomw.RoutePattern,
		PathParam:     echomw.PathParam,
		ErrorsTravel:  true,
		ContextValue:  echomw.ContextValue,
	})
}

func serve(t *testing.T, app parity.App[echo.Context]) http.Handler {
	limiter := func(c *parity.Config[echo.Context]) []echo.MiddlewareFunc {
		if c == nil {
			return nil
		}
		config := echomw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, SkipPreflight: c.SkipPreflight, MaxWaiting: c.MaxWaiting,
			OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(c echo.Context, o core.Outcome) error {
				parity.Sorry(c.Response(), o)
				return nil
			}
		}
		if c.PlainText {
			config.Denied = echomw.PlainText
		}
		if c.Boom {
			config.Denied = func(echo.Context, core.Outcome) error { panic("boom") }
		}
		limit, err := echomw.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if c.Made != nil {
			c.Made(limit)
		}
		return []echo.MiddlewareFunc{limit.Middleware()}
	}
	hello := func(c echo.Context) error { parity.Hello(c.Response()); return nil }
	user := func(c echo.Context) error { parity.User(c.Response(), c.Param("id")); return nil }
	site, route := limiter(app.Site), limiter(app.Route)
	if app.Twice {
		route = site
	}
	recoverer := middleware.RecoverWithConfig(middleware.RecoverConfig{DisablePrintStack: true})

	e := echo.New()
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if err == echo.ErrNotFound {
			parity.NotFound(c.Response())
			return
		}
		if err == echo.ErrMethodNotAllowed {
			parity.NotAllowed(c.Response())
			return
		}
		e.DefaultHTTPErrorHandler(err, c)
	}
	if app.Recover == parity.Outside {
		e.Use(recoverer)
	}
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if user := c.Request().Header.Get("X-User"); user != "" {
				c.Set("user", user)
			}
			return next(c)
		}
	})
	if app.Shed != nil {
		e.Use(echomw.Shed(app.Shed))
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
	e.GET("/left", func(c echo.Context) error {
		o, ok := echomw.OutcomeFrom(c)
		parity.Left(c.Response(), o, ok)
		return nil
	}, route...)
	e.GET("/conflict", func(echo.Context) error { return echo.NewHTTPError(parity.ErrConflict.StatusCode()) })
	e.GET("/breaks", func(echo.Context) error { return parity.ErrBroken })
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
