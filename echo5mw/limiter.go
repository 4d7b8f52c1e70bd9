package echo5mw

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a named limit and how to apply it to a request. Its fields are those
// of [core.Rule]: Name, Scope, Limit, LimitFor, Key, Cost, Unit,
// OnFailure.
type Rule = core.Rule[*echo.Context]

// Config is what a [Limiter] is made of. The zero value of every field but
// Rules is a usable default.
type Config struct {
	// Rules are all decided for every request, in one atomic step. Required.
	Rules []Rule

	// Backend keeps the state. nil: in-process memory, see [core.NewMemory].
	Backend core.Backend

	// Fallback decides for rules that fall back while Backend fails. nil:
	// in-process memory, made when it is first needed, and shared by all limiters
	// on one Backend, see [core.Config].
	Fallback core.Backend

	// Instances is the number of processes that share Backend. Above 1, each
	// falls back to its share of every limit. 0: the whole limit.
	Instances int

	// Observe is called once per decided request, before it is answered. It
	// must be quick and safe for concurrent use. nil: nothing.
	Observe func(context.Context, *echo.Context, core.Outcome)

	// Headers chooses the response header fields. Zero: RateLimit and
	// RateLimit-Policy of the current IETF draft on every answer, and
	// Retry-After on denials.
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided, with
	// status 429 or 503: [core.Outcome.Status]. [PlainText] is a ready one. The
	// header fields are already set, Cache-Control: no-store among them. The
	// outcome has all rules, whatever Headers shows: tell clients of those that
	// denied at most. It may
	// write the answer and return nil, or return an error, such as
	// echo.NewHTTPError(429), for the error handler of the Echo to answer. If it
	// does neither, status 200 is sent. It is not called once the response is
	// committed, since nothing can be answered any more.
	// A request that the server's own deadline ended is answered without it, with
	// a bare 503.
	// nil: a problem document or plain text, whichever the client prefers.
	Denied func(*echo.Context, core.Outcome) error

	// SkipPreflight exempts CORS preflight requests (OPTIONS with Origin and
	// Access-Control-Request-Method), whose failure a browser reports as a
	// broken page. A plain OPTIONS request is still counted. Better is to put
	// the CORS middleware outside the limiter.
	SkipPreflight bool

	// MaxWaiting is how many requests may wait for their turn at once, where a
	// limit is a leaky queue. Each holds a goroutine and its connection. One more
	// is answered as if it could not be decided, with 503 and Retry-After: its
	// outcome becomes [core.Unavailable] and has the error [nethttp.ErrQueueFull].
	// Observe has seen it allowed, and its slot stays spent. 0: 10,000.
	MaxWaiting int

	// OutcomeInContext makes the outcome, allowed or not, available by
	// [OutcomeFrom]: to later handlers, to Denied, to outer middleware after
	// next, and to the error handler of the Echo.
	OutcomeInContext bool
}

// Limiter limits the requests of echo handlers. It is safe for concurrent use.
type Limiter struct {
	gate *nethttp.Gate[*echo.Context]
}

// New returns a limiter, or an error that reports every mistake in config.
func New(config Config) (*Limiter, error) {
	gate := nethttp.GateConfig[*echo.Context]{
		Config: core.Config[*echo.Context]{
			Rules:     config.Rules,
			Backend:   config.Backend,
			Fallback:  config.Fallback,
			Instances: config.Instances,
			Observe:   config.Observe,
		},
		Headers:       config.Headers,
		SkipPreflight: config.SkipPreflight,
		MaxWaiting:    config.MaxWaiting,
		Committed:     committed,
	}
	if config.Denied != nil {
		gate.Denied = func(_ http.ResponseWriter, c *echo.Context, o core.Outcome) error { return config.Denied(c, o) }
	}
	if config.OutcomeInContext {
		gate.Attach = withOutcome
	}
	g, err := nethttp.NewGate(gate)
	if err != nil {
		return nil, err
	}
	return &Limiter{g}, nil
}

// MustNew is [New] for package variables: it panics if config has a mistake.
func MustNew(config Config) *Limiter {
	l, err := New(config)
	if err != nil {
		panic(err)
	}
	return l
}

// Decide decides c and takes what it costs, without answering it: for handlers
// that act on the outcome themselves.
func (l *Limiter) Decide(c *echo.Context) core.Outcome { return l.gate.Decide(c.Request(), c) }

// Middleware returns middleware that lets only allowed requests through to the
// next handler. All middleware of one limiter counts together. It panics if l is
// nil or was not made by [New].
func (l *Limiter) Middleware() echo.MiddlewareFunc {
	if l == nil || l.gate == nil {
		panic("echo5mw: Limiter.Middleware: the limiter is nil or zero: make one with New")
	}
	gate := l.gate
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c, ok, err := gate.Admit(c.Response(), c.Request(), c)
			if !ok {
				return err
			}
			return next(c)
		}
	}
}

func committed(c *echo.Context) bool {
	response, err := echo.UnwrapResponse(c.Response())
	return err == nil && response.Committed
}

// PlainText answers a request that is denied or could not be decided with one line
// of plain text, whatever the client prefers. It is for [Config].Denied, and does
// what [nethttp.PlainText] does.
func PlainText(c *echo.Context, o core.Outcome) error {
	nethttp.PlainText(c.Response(), c.Request(), o)
	return nil
}

const outcomeKey = "github.com/weir-go/weir/echo5mw: outcome"

func withOutcome(c *echo.Context, o core.Outcome) *echo.Context {
	c.Set(outcomeKey, o)
	return c
}

// OutcomeFrom returns the outcome of the request whose context c is, and whether
// there is one: that of the innermost limiter it has come to that has
// [Config].OutcomeInContext set.
func OutcomeFrom(c *echo.Context) (core.Outcome, bool) {
	o, ok := c.Get(outcomeKey).(core.Outcome)
	return o, ok
}
