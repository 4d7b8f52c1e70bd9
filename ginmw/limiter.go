package ginmw

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a named limit and how to apply it to a request. Its fields are those of
// [core.Rule]: Name, Scope, Limit, LimitFor, Key, Cost, Unit, OnFailure, Mode, FinalCost,
// NoDelay, Local, DenyAs503.
type Rule = core.Rule[*gin.Context]

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
	// Denied must write the status. Otherwise gin sends 200, or the 404 or 405 that it
	// was about to send. The chain is aborted already. Denied is not called if earlier
	// handlers have written to the response, because it is too late for an answer then.
	//
	// A request whose context has ended gets a bare 503, without a call of
	// Denied. nil: a problem document or plain text, whichever the client prefers.
	Denied func(*gin.Context, core.Outcome)

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
	// handlers, in Denied, and in earlier handlers after c.Next.
	OutcomeInContext bool
}

// Limiter limits the requests of gin handlers. It is safe for concurrent use.
type Limiter struct {
	gate *gate.Gate[*gin.Context]
}

// New returns a limiter, or an error that reports every mistake in config.
func New(config Config) (*Limiter, error) {
	gateConfig := gate.Config[*gin.Context]{
		Config: core.Config[*gin.Context]{
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
		Committed:     func(c *gin.Context) bool { return c.Writer.Written() },
		WithContext:   withContext,
		Answered:      answered,
	}
	if config.Denied != nil {
		gateConfig.Denied = func(_ http.ResponseWriter, c *gin.Context, o core.Outcome) error {
			c.Abort() // before Denied, so that a c.Next in it runs nothing
			config.Denied(c, o)
			return nil
		}
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
func (l *Limiter) Decide(c *gin.Context) core.Outcome { return l.gate.Decide(c.Request, c) }

// State returns what the limiter does: the rules in force, what is held and since when, how many
// wait in leaky queues, and what passed without a decision.
func (l *Limiter) State() core.State { return l.gate.State() }

// Handler returns a handler that lets only allowed requests through to the handlers
// after it. All handlers of one limiter count together. The request ends when these
// handlers have returned or panicked, unless [Detach] is called. Handler panics if l is
// nil or was not made by [New].
func (l *Limiter) Handler() gin.HandlerFunc {
	if l == nil || l.gate == nil {
		panic("ginmw: Limiter.Handler: the limiter is nil or zero: make one with New")
	}
	g := l.gate
	return func(c *gin.Context) {
		if err := g.Serve(c.Writer, c.Request, c, proceed); err != errProceeded {
			c.Abort()
		}
	}
}

// errProceeded is what proceed returns, so that its caller knows that it was called.
var errProceeded = errors.New("ginmw: the request went on")

// proceed calls the handlers after the limiter.
func proceed(_ http.ResponseWriter, c *gin.Context) error {
	c.Next()
	return errProceeded
}

// PlainText answers a request that is denied or could not be decided with one line of
// plain text, whatever the client prefers. It is for [Config].Denied. It calls
// [nethttp.PlainText].
func PlainText(c *gin.Context, o core.Outcome) {
	nethttp.PlainText(c.Writer, c.Request, o)
}

// outcomeKey is a string because gin before 1.12 accepts no other keys.
const outcomeKey = "github.com/weir-go/weir/ginmw.outcome"

func withOutcome(c *gin.Context, o core.Outcome) *gin.Context {
	c.Set(outcomeKey, o)
	return c
}

// OutcomeFrom returns the outcome of the request with context c, and whether there is
// one. With several limiters, it is the outcome of the latest one that c has reached
// and that has [Config].OutcomeInContext set.
func OutcomeFrom(c *gin.Context) (core.Outcome, bool) {
	v, _ := c.Get(outcomeKey)
	o, ok := v.(core.Outcome)
	return o, ok
}
