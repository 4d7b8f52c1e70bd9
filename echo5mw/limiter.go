package echo5mw

import (
	"context"
	"errors"
	"net/http"
	"net/netip"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for HTTP requests: see [core.Rule].
type Rule = core.Rule[*echo.Context]

// Config configures a [Limiter]: see [nethttp.ConfigOf].
//
// Denied either writes the answer and returns nil, or returns an error, such as
// echo.NewHTTPError(o.Status()), which the error handler of the Echo answers. If it does neither,
// status 200 is sent. Denied is not called if the response is committed, because it is too late
// for an answer then.
//
// OutcomeInContext makes [OutcomeFrom] return the outcome, allowed or not: in later handlers, in
// Denied, in outer middleware after next, and in the error handler of the Echo.
type Config = nethttp.ConfigOf[*echo.Context, func(*echo.Context, core.Outcome) error]

// Limiter limits the requests of echo handlers. It is safe for concurrent use.
type Limiter struct {
	nethttp.Controls[*echo.Context]
	gate *gate.Gate[*echo.Context]
}

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) {
	f := framework
	if config.Denied != nil {
		f.Denied = func(_ http.ResponseWriter, c *echo.Context, o core.Outcome) error {
			return config.Denied(c, o)
		}
	}
	controls, g, err := config.Gate(f)
	return gate.Made(&Limiter{controls, g}, err)
}

var framework = gate.Framework[*echo.Context]{
	Context:     func(c *echo.Context) context.Context { return c.Request().Context() },
	Attach:      withOutcome,
	Committed:   committed,
	WithContext: withContext,
	OnStatus:    onStatus,
	Answered:    answered,
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Limiter { return gate.Must(New(config)) }

// PerAddress returns a limiter with one rule, called per-address: each client address may send what
// rate allows, in a sliding window. It is [New] for what most servers need.
//
// source finds the address: Lift(keyfuncs.Peer) if clients connect directly, another lifted source
// behind a proxy, or [RealIP] if the Echo knows its proxies.
// A backend, at most one, is for many servers with one limit: see [nethttp.PerAddress].
func PerAddress(
	rate limits.Rate, source func(*echo.Context) (netip.Addr, error), backend ...backends.Backend,
) (*Limiter, error) {
	rules, store, err := gate.PerAddress(rate, source, backend)
	limiter, other := New(Config{Rules: rules, Backend: store})
	return gate.Made(limiter, errors.Join(err, other))
}

// MustPerAddress is [PerAddress] for package variables. It panics on a mistake.
func MustPerAddress(
	rate limits.Rate, source func(*echo.Context) (netip.Addr, error), backend ...backends.Backend,
) *Limiter {
	return gate.Must(PerAddress(rate, source, backend...))
}

// Middleware returns middleware that passes only allowed requests to the next handler.
// All middleware of one limiter counts together. The request ends when the next handler
// has returned or panicked, unless [Detach] is called. Middleware panics if l is nil or
// was not made by [New].
func (l *Limiter) Middleware() echo.MiddlewareFunc {
	if l == nil || l.gate == nil {
		panic("echo5mw: Limiter.Middleware: the limiter is nil or zero: make one with New")
	}
	g := l.gate
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		proceed := func(_ http.ResponseWriter, c *echo.Context) error { return next(c) }
		return func(c *echo.Context) error {
			return g.Serve(c.Response(), c.Request(), c, proceed)
		}
	}
}

func committed(c *echo.Context) bool {
	response, err := echo.UnwrapResponse(c.Response())
	return err == nil && response.Committed
}

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units: see [nethttp.Limiter.Quota]. routes are methods and paths for which to ask, such as
// "GET /search". The rules see them in c.Request. c.Path stays that of the handler itself. Quota panics
// if l is nil or was not made by [New], or if a route is not a method and a path.
func (l *Limiter) Quota(routes ...string) echo.HandlerFunc {
	if l == nil || l.gate == nil {
		panic("echo5mw: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return func(c *echo.Context) error { return serve(c.Response(), c.Request(), c) }
}

func withRequest(c *echo.Context, r *http.Request) *echo.Context {
	c.SetRequest(r)
	return c
}

// PlainText is [nethttp.PlainText], for [Config].Denied.
func PlainText(c *echo.Context, o core.Outcome) error {
	nethttp.PlainText(c.Response(), c.Request(), o)
	return nil
}

const outcomeKey = "github.com/weir-go/weir/echo5mw: outcome"

func withOutcome(c *echo.Context, o core.Outcome) *echo.Context {
	c.Set(outcomeKey, o)
	return c
}

// OutcomeFrom returns the outcome of the request with context c, and whether there is
// one. With several limiters, it is the outcome of the innermost one that c has reached
// and that has [Config].OutcomeInContext set.
func OutcomeFrom(c *echo.Context) (core.Outcome, bool) {
	o, ok := c.Get(outcomeKey).(core.Outcome)
	return o, ok
}
