package ginmw

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"reflect"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for HTTP requests: see [core.Rule].
type Rule = core.Rule[*gin.Context]

// Config configures a [Limiter]: see [nethttp.ConfigOf].
//
// Denied must write the status. Otherwise gin sends 200, or the 404 or 405 that it was about to
// send. The chain is aborted already. Denied is not called if earlier handlers have written to the
// response, because it is too late for an answer then.
//
// OutcomeInContext makes [OutcomeFrom] return the outcome, allowed or not: in later handlers, in
// Denied, and in earlier handlers after c.Next.
type Config = nethttp.ConfigOf[*gin.Context, func(*gin.Context, core.Outcome)]

// Limiter limits the requests of gin handlers. It is safe for concurrent use.
type Limiter struct {
	nethttp.Controls[*gin.Context]
	gate *gate.Gate[*gin.Context]
}

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) {
	f := framework
	if config.Denied != nil {
		f.Denied = func(_ http.ResponseWriter, c *gin.Context, o core.Outcome) error {
			c.Abort() // before Denied, so that a c.Next in it runs no handler
			config.Denied(c, o)
			return nil
		}
	}
	controls, g, err := config.Gate(f)
	return gate.Made(&Limiter{controls, g}, err)
}

var framework = gate.Framework[*gin.Context]{
	Context:     func(c *gin.Context) context.Context { return c.Request.Context() },
	Attach:      withOutcome,
	Committed:   func(c *gin.Context) bool { return c.Writer.Written() },
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
// behind a proxy, or [ClientIP] if the engine knows its proxies.
// A backend, at most one, is for many servers with one limit: see [nethttp.PerAddress].
func PerAddress(
	rate limits.Rate, source func(*gin.Context) (netip.Addr, error), backend ...backends.Backend,
) (*Limiter, error) {
	rules, store, err := gate.PerAddress(rate, source, backend)
	limiter, other := New(Config{Rules: rules, Backend: store})
	return gate.Made(limiter, errors.Join(err, other))
}

// MustPerAddress is [PerAddress] for package variables. It panics on a mistake.
func MustPerAddress(
	rate limits.Rate, source func(*gin.Context) (netip.Addr, error), backend ...backends.Backend,
) *Limiter {
	return gate.Must(PerAddress(rate, source, backend...))
}

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
		switch g.Serve(c.Writer, c.Request, c, proceed) {
		case errProceeded, gate.ErrSwapped:
		default:
			c.Abort()
		}
	}
}

// errProceeded tells the caller of Serve that proceed was called.
var errProceeded = errors.New("ginmw: the request went on")

// proceed calls the handlers after the limiter.
func proceed(_ http.ResponseWriter, c *gin.Context) error {
	before := reflect.TypeOf(c.Writer) // a writer itself may not be comparable
	c.Next()
	if reflect.TypeOf(c.Writer) != before {
		return gate.ErrSwapped
	}
	return errProceeded
}

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units: see [nethttp.Limiter.Quota]. routes are methods and paths for which to ask, such as
// "GET /search". The rules see them in c.Request. c.FullPath stays that of the handler itself. Quota panics
// if l is nil or was not made by [New], or if a route is not a method and a path.
func (l *Limiter) Quota(routes ...string) gin.HandlerFunc {
	if l == nil || l.gate == nil {
		panic("ginmw: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return func(c *gin.Context) { _ = serve(c.Writer, c.Request, c) } // Denied returns nil
}

func withRequest(c *gin.Context, r *http.Request) *gin.Context {
	c.Request = r
	return c
}

// PlainText is [nethttp.PlainText], for [Config].Denied.
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
