package ginmw

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a named limit and how to apply it to a request. Its fields are those
// of [core.Rule]: Name, Scope, Limit, LimitFor, Key, Cost, Unit,
// OnFailure.
type Rule = core.Rule[*gin.Context]

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
	Observe func(context.Context, *gin.Context, core.Outcome)

	// Headers chooses the response header fields. Zero: RateLimit and
	// RateLimit-Policy of the current IETF draft on every answer, and
	// Retry-After on denials.
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided, with
	// status 429 or 503: [core.Outcome.Status]. [PlainText] is a ready one. The
	// header fields are already set, Cache-Control: no-store among them. The
	// outcome has all rules, whatever Headers shows: tell clients of those that
	// denied at most. It has
	// to write the status: without, gin sends 200, or the 404 or 405 that it
	// was about to send. The chain is aborted already. It is not called once
	// earlier handlers have written, since nothing can be answered any more.
	// A request that the server's own deadline ended is answered without it, with
	// a bare 503.
	// nil: a problem document or plain text, whichever the client prefers.
	Denied func(*gin.Context, core.Outcome)

	// SkipPreflight exempts CORS preflight requests (OPTIONS with Origin and
	// Access-Control-Request-Method), whose failure a browser reports as a
	// broken page. A plain OPTIONS request is still counted. Better is to put
	// the CORS middleware before the limiter.
	SkipPreflight bool

	// MaxWaiting is how many requests may wait for their turn at once, where a
	// limit is a leaky queue. Each holds a goroutine and its connection. One more
	// is answered as if it could not be decided, with 503 and Retry-After: its
	// outcome becomes [core.Unavailable] and has the error [nethttp.ErrQueueFull].
	// Observe has seen it allowed, and its slot stays spent. 0: 10,000.
	MaxWaiting int

	// OutcomeInContext makes the outcome, allowed or not, available by
	// [OutcomeFrom]: to later handlers, to Denied, and to earlier ones after
	// c.Next.
	OutcomeInContext bool
}

// Limiter limits the requests of gin handlers. It is safe for concurrent use.
type Limiter struct {
	gate *nethttp.Gate[*gin.Context]
}

// New returns a limiter, or an error that reports every mistake in config.
func New(config Config) (*Limiter, error) {
	gate := nethttp.GateConfig[*gin.Context]{
		Config: core.Config[*gin.Context]{
			Rules:     config.Rules,
			Backend:   config.Backend,
			Fallback:  config.Fallback,
			Instances: config.Instances,
			Observe:   config.Observe,
		},
		Headers:       config.Headers,
		SkipPreflight: config.SkipPreflight,
		MaxWaiting:    config.MaxWaiting,
		Committed:     func(c *gin.Context) bool { return c.Writer.Written() },
	}
	if config.Denied != nil {
		gate.Denied = func(_ http.ResponseWriter, c *gin.Context, o core.Outcome) error {
			c.Abort() // first, so that a c.Next in Denied runs nothing
			config.Denied(c, o)
			return nil
		}
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
func (l *Limiter) Decide(c *gin.Context) core.Outcome { return l.gate.Decide(c.Request, c) }

// Handler returns a handler that lets only allowed requests through to those
// after it. All handlers of one limiter count together. It panics if l is nil or
// was not made by [New].
func (l *Limiter) Handler() gin.HandlerFunc {
	if l == nil || l.gate == nil {
		panic("ginmw: Limiter.Handler: the limiter is nil or zero: make one with New")
	}
	gate := l.gate
	return func(c *gin.Context) {
		if _, ok, _ := gate.Admit(c.Writer, c.Request, c); !ok {
			c.Abort()
		}
	}
}

// PlainText answers a request that is denied or could not be decided with one line
// of plain text, whatever the client prefers. It is for [Config].Denied, and does
// what [nethttp.PlainText] does.
func PlainText(c *gin.Context, o core.Outcome) {
	nethttp.PlainText(c.Writer, c.Request, o)
}

// outcomeKey is a string because gin before 1.12 has no other keys.
const outcomeKey = "github.com/weir-go/weir/ginmw.outcome"

func withOutcome(c *gin.Context, o core.Outcome) *gin.Context {
	c.Set(outcomeKey, o)
	return c
}

// OutcomeFrom returns the outcome of the request whose context c is, and whether
// there is one: that of the latest limiter it has come to that has
// [Config].OutcomeInContext set.
func OutcomeFrom(c *gin.Context) (core.Outcome, bool) {
	v, _ := c.Get(outcomeKey)
	o, ok := v.(core.Outcome)
	return o, ok
}
