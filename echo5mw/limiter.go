package echo5mw

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a named limit and how to apply it to a request. Its fields are those of
// [core.Rule]: Name, Scope, Limit, LimitFor, Key, Cost, Unit, OnFailure, Mode, FinalCost,
// NoDelay, Local, DenyAs503.
type Rule = core.Rule[*echo.Context]

// Config configures a [Limiter]. The zero value of every field but Rules is a usable
// default.
type Config struct {
	// Rules are decided together for every request, in one atomic step. Required.
	Rules []Rule

	// Backend keeps the state. nil: in-process memory, see [memory.New].
	Backend limits.Backend

	// Fallback decides while Backend fails, for the rules that fall back. nil:
	// in-process memory, which is created when it is first needed and shared by all
	// limiters on one Backend. See [core.Config].
	Fallback limits.Backend

	// Instances is the number of processes that share Backend. If it is above 1, each
	// falls back to its share of every limit. 0: each falls back to the whole limit.
	Instances int

	// Observer is told of decisions, ends and changes, such as counters of package stats or
	// [core.ObserverFuncs]. nil: nothing is told.
	Observer core.Observer

	// Logger gets a line when a rule cannot decide, and then one a minute for each rule and
	// what failed, with the number of requests since. So it says why a request was answered 503.
	// No line has a key. Of an error of the program's own functions it has the type alone,
	// unless the error is a [slog.LogValuer]. nil: the logger that slog.Default returns at
	// that time. To log nothing, use a slog.DiscardHandler.
	Logger *slog.Logger

	// Headers chooses the response header fields. Zero: RateLimit and RateLimit-Policy
	// of the current IETF draft on every answer, and Retry-After on the answer to every
	// request that is not allowed.
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided. The status is that
	// of [core.Outcome.Status]: 429, or 503 if the request could not be decided or only
	// rules with DenyAs503 denied it. [PlainText] is a ready-made Denied. The header fields
	// are set when it is called, Cache-Control: no-store among them. The outcome has all
	// rules, whatever Headers shows: tell clients only of the rules that denied, and of
	// none in a 503.
	//
	// Denied either writes the answer and returns nil, or returns an error, such as
	// echo.NewHTTPError(o.Status()), for the error handler of the Echo to answer. If it
	// does neither, status 200 is sent. Denied is not called if the response is
	// committed, because it is too late for an answer then.
	//
	// A request whose context has ended gets a bare 503, without a call of
	// Denied. nil: a problem document or plain text, whichever the client prefers.
	Denied func(*echo.Context, core.Outcome) error

	// SkipPreflight lets anybody past every rule, even during a ban, with a request that
	// looks like a CORS preflight: OPTIONS with the fields Origin and
	// Access-Control-Request-Method, whoever sends them. It is for CORS middleware
	// after the limiter, which answers these requests itself. If they reach a handler that
	// does work for OPTIONS, that is not limited. Other OPTIONS requests count. A browser
	// reports a denied preflight as a broken page, so it is better to put the CORS
	// middleware before the limiter, and to leave SkipPreflight unset.
	SkipPreflight bool

	// MaxWaiting is how many requests may wait for their turn at once, if a limit is a
	// leaky queue. Each one holds a goroutine and its connection. A further request is
	// answered with 503 and Retry-After, like one that could not be decided. Its
	// outcome becomes [core.Unavailable] with the error [core.ErrQueueFull], after the
	// Observer has seen it allowed, and its slot stays spent. 0: 10,000.
	MaxWaiting int

	// OutcomeInContext makes [OutcomeFrom] return the outcome, allowed or not: in later
	// handlers, in Denied, in outer middleware after next, and in the error handler of
	// the Echo.
	OutcomeInContext bool
}

// Limiter limits the requests of echo handlers. It is safe for concurrent use.
type Limiter struct {
	gate *gate.Gate[*echo.Context]
}

// New returns a limiter, or an error that reports every mistake in config.
func New(config Config) (*Limiter, error) {
	gateConfig := gate.Config[*echo.Context]{
		Config: core.Config[*echo.Context]{
			Rules:      config.Rules,
			Backend:    config.Backend,
			Fallback:   config.Fallback,
			Instances:  config.Instances,
			Observer:   config.Observer,
			MaxWaiting: config.MaxWaiting,
		},
		Logger:        config.Logger,
		Headers:       config.Headers,
		SkipPreflight: config.SkipPreflight,
		Committed:     committed,
		WithContext:   withContext,
		Answered:      answered,
	}
	if config.Denied != nil {
		gateConfig.Denied = func(_ http.ResponseWriter, c *echo.Context, o core.Outcome) error { return config.Denied(c, o) }
	}
	if config.OutcomeInContext {
		gateConfig.Attach = withOutcome
	}
	g, err := gate.New(gateConfig)
	if err != nil {
		return nil, err
	}
	return &Limiter{g}, nil
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Limiter {
	l, err := New(config)
	if err != nil {
		panic(err)
	}
	return l
}

// Decide decides c and takes its cost, without answering it. It is for handlers that
// act on the outcome themselves. If a rule has a concurrency limit or a FinalCost, whoever
// calls Decide must call [core.Outcome.End] when the request is over.
func (l *Limiter) Decide(c *echo.Context) core.Outcome { return l.gate.Decide(c.Request(), c) }

// State returns what the limiter does: the rules in force, what is held and since when, how many
// wait in leaky queues, and what passed without a decision.
func (l *Limiter) State() core.State { return l.gate.State() }

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

// PlainText answers a request that is denied or could not be decided with one line of
// plain text, whatever the client prefers. It is for [Config].Denied. It calls
// [nethttp.PlainText].
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
