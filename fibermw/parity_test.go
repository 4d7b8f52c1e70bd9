package fibermw_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/timeout"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
)

func TestParity(t *testing.T) {
	parity.Run(t, parity.Adapter[fiber.Ctx]{
		Serve: serve,
		New: func(rules []fibermw.Rule) (parity.Limiter[fiber.Ctx], error) {
			return fibermw.New(fibermw.Config{Rules: rules})
		},
		Panics: map[string]func(){
			"MustNew": func() { fibermw.MustNew(fibermw.Config{}) },
			"nil":     func() { (*fibermw.Limiter)(nil).Middleware() },
			"zero":    func() { new(fibermw.Limiter).Middleware() },
		},
		Request:       fibermw.Request,
		Lift:          fibermw.Lift[string],
		LiftCondition: fibermw.LiftCondition,
		LiftLimit:     fibermw.Lift[limits.Limit],
		RoutePattern:  fibermw.RoutePattern,
		PathParam:     fibermw.PathParam,
		ContextValue:  fibermw.ContextValue,
		Lacks: map[parity.Need]string{
			parity.HTTP2:         "fasthttp speaks HTTP/1.1 alone",
			parity.Informational: "an answer of fasthttp has one status",
			parity.Aborts:        "a panic that nothing recovers ends the process",
			parity.OneGoroutine:  "the adaptor of fasthttp starts one for each handler of net/http",
			parity.SeesLeaving:   "fasthttp does not read from a connection while it serves a request",
			parity.StreamSizes:   "fasthttp does not count what it sends in chunks",
			parity.RouteFirst:    "Fiber looks for the next route when the handlers of the last one are done",
		},
	})
}

// The first answer with a date starts a goroutine, which must not belong to the bubble of a test.
func init() { _ = new(fasthttp.ResponseHeader).String() }

func serve(t *testing.T, app parity.App[fiber.Ctx]) http.Handler {
	limiter := func(c *parity.Config[fiber.Ctx]) []any {
		if c == nil {
			return nil
		}
		config := fibermw.Config{
			Rules: c.Rules, Backend: c.Backend, Fallback: c.Fallback, Instances: c.Instances, Observer: c.Observer,
			Headers: c.Headers, SkipPreflight: c.SkipPreflight, MaxWaiting: c.MaxWaiting,
			OutcomeInContext: c.OutcomeInContext,
		}
		if c.Sorry {
			config.Denied = func(c fiber.Ctx, o core.Outcome) error {
				return write(c, func(w http.ResponseWriter) { parity.Sorry(w, o) })
			}
		}
		if c.PlainText {
			config.Denied = fibermw.PlainText
		}
		if c.Boom {
			config.Denied = func(fiber.Ctx, core.Outcome) error { panic("boom") }
		}
		limit, err := fibermw.New(config)
		if err != nil {
			t.Fatal(err)
		}
		if c.Made != nil {
			c.Made(limit)
		}
		return []any{limit.Middleware()}
	}
	hello := func(c fiber.Ctx) error { return write(c, parity.Hello) }
	user := func(c fiber.Ctx) error {
		id, err := url.PathUnescape(c.Params("id"))
		if err != nil {
			return err
		}
		return write(c, func(w http.ResponseWriter) { parity.User(w, id) })
	}
	outer, route := limiter(app.Site), limiter(app.Route)
	if app.Twice {
		route = outer
	}
	// get registers a handler behind middleware.
	get := func(r fiber.Router, path string, handler fiber.Handler, middleware []any) {
		all := append(append([]any{}, middleware...), handler)
		r.Get(path, all[0], all[1:]...)
	}
	a := fiber.New(fiber.Config{ErrorHandler: answerError, DisableDefaultDate: true})
	a.Use(setContext)
	if app.Recover == parity.Outside {
		a.Use(recover.New())
	}
	a.Use(func(c fiber.Ctx) error {
		if user := c.Get("X-User"); user != "" {
			c.Locals("user", user)
		}
		return c.Next()
	})
	if app.Shed != nil {
		a.Use(fibermw.Shed(app.Shed))
	}
	site := func(c fiber.Ctx) error { return c.Next() }
	if app.Site != nil {
		site = outer[0].(fiber.Handler)
	}
	if app.TimeOut == parity.Outside {
		site = timeout.New(site, timeout.Config{Timeout: parity.TimeOut})
	}
	a.Use(site)
	if app.TimeOut == parity.Inside {
		a.Use(timeout.New(func(c fiber.Ctx) error { return c.Next() }, timeout.Config{Timeout: parity.TimeOut}))
	}
	if app.Recover == parity.Inside {
		a.Use(recover.New())
	}
	a.Get("/hello", hello)
	a.Options("/hello", hello)
	get(a, "/left", func(c fiber.Ctx) error {
		o, ok := fibermw.OutcomeFrom(c)
		return write(c, func(w http.ResponseWriter) { parity.Left(w, o, ok) })
	}, route)
	a.Get("/conflict", func(fiber.Ctx) error { return parity.ErrConflict })
	a.Get("/breaks", func(fiber.Ctx) error { return parity.ErrBroken })
	get(a, "/users/:id", user, route)
	all := append(append([]any{}, route...), hello)
	a.Post("/login", all[0], all[1:]...)
	api := a.Group("/api", limiter(app.Group)...)
	get(api, "/items/:id", user, nil)
	get(api, "/both/:id", user, route)
	for path, handler := range app.Extra {
		get(a, path, ofNetHTTP(handler), route)
	}
	return serverOf(a)
}

// ofNetHTTP serves a handler of net/http. Its context is that of c, which outlives c.
func ofNetHTTP(handler http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		ctx := c.Context()
		fasthttpadaptor.NewFastHTTPHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(w, r.WithContext(ctx))
		}))(c.RequestCtx())
		return nil
	}
}

// answerError answers errors as the other adapters' frameworks do.
func answerError(c fiber.Ctx, err error) error {
	switch status, ok := errors.AsType[parity.StatusError](err); {
	case err == fiber.ErrNotFound:
		return write(c, parity.NotFound)
	case err == fiber.ErrMethodNotAllowed:
		return write(c, parity.NotAllowed)
	case ok:
		return c.SendStatus(int(status))
	}
	return fiber.DefaultErrorHandler(c, err)
}
