package fibermw

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
)

// Rule is a rule for HTTP requests: see [core.Rule].
type Rule = core.Rule[fiber.Ctx]

// Config configures a [Limiter]: see [nethttp.ConfigOf].
//
// With NotOnRedirects or NotOnStorable, the limiter calls the ErrorHandler of the app for an error
// of a handler, as Fiber's logger does, because the answer decides about the fields. Middleware
// outside then sees a nil error.
//
// Denied either writes the answer and returns nil, or returns an error, such as
// fiber.NewError(o.Status()), which the ErrorHandler of the app answers. The status is set before
// the call.
//
// OutcomeInContext makes [OutcomeFrom] return the outcome, allowed or not: in later handlers, in
// Denied, in outer middleware after c.Next, and in the ErrorHandler of the app.
type Config = nethttp.ConfigOf[fiber.Ctx, func(fiber.Ctx, core.Outcome) error]

// Limiter limits the requests of Fiber handlers. It is safe for concurrent use.
type Limiter struct {
	nethttp.Controls[fiber.Ctx]
	gate *gate.Gate[fiber.Ctx]
}

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) {
	f := framework
	config.Rules = copying(config.Rules)
	if config.Denied != nil {
		f.Denied = func(w http.ResponseWriter, c fiber.Ctx, o core.Outcome) error {
			w.WriteHeader(o.Status())
			if w.(*exchange).isLate() {
				return nil
			}
			return config.Denied(c, o)
		}
	}
	controls, g, err := config.Gate(f)
	return gate.Made(&Limiter{controls, g}, err)
}

var framework = gate.Framework[fiber.Ctx]{
	Context:     fiber.Ctx.Context,
	Attach:      withOutcome,
	WithContext: withContext,
	OnStatus:    onStatus,
	GivenUp:     func(w http.ResponseWriter) bool { return w.(*exchange).isLate() },
	Restores:    true,
	Answered:    answered,
	Sending:     sending{},
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Limiter { return gate.Must(New(config)) }

// PerAddress returns a limiter with one rule, called per-address: each client address may send what
// rate allows, in a sliding window. It is [New] for what most servers need.
//
// source finds the address: [Peer] if clients connect directly, a lifted source of keyfuncs behind a
// proxy, or [IP] if the app knows its proxies.
// A backend, at most one, is for many servers with one limit: see [nethttp.PerAddress].
func PerAddress(
	rate limits.Rate, source func(fiber.Ctx) (netip.Addr, error), backend ...backends.Backend,
) (*Limiter, error) {
	rules, store, err := gate.PerAddress(rate, source, backend)
	limiter, other := New(Config{Rules: rules, Backend: store})
	return gate.Made(limiter, errors.Join(err, other))
}

// MustPerAddress is [PerAddress] for package variables. It panics on a mistake.
func MustPerAddress(
	rate limits.Rate, source func(fiber.Ctx) (netip.Addr, error), backend ...backends.Backend,
) *Limiter {
	return gate.Must(PerAddress(rate, source, backend...))
}

// Replace replaces the rules, from the next request on: see [nethttp.Controls.Replace].
func (l *Limiter) Replace(rules []Rule) error { return l.Controls.Replace(copying(rules)) }

// copying returns rules whose keys and values have memory of their own: a backend, an observer and
// the end of the request keep them, and fasthttp uses the memory of the request again.
func copying(rules []Rule) []Rule {
	rules = slices.Clone(rules)
	for i := range rules {
		rules[i].Key = copied(rules[i].Key)
		rules[i].Value = copied(rules[i].Value)
	}
	return rules
}

func copied(f func(fiber.Ctx) (string, error)) func(fiber.Ctx) (string, error) {
	if f == nil {
		return nil
	}
	return func(c fiber.Ctx) (string, error) {
		text, err := f(c)
		return strings.Clone(text), err
	}
}

// Decide decides c and takes its cost, without answering it: see [nethttp.Controls.Decide].
func (l *Limiter) Decide(c fiber.Ctx) core.Outcome {
	x := begin(c)
	o, _ := l.gate.DecideCall(x.within, c)
	x.end()
	return o
}

// Middleware returns middleware that passes only allowed requests to the next handler.
// All middleware of one limiter counts together. The request ends when the next handler
// has returned or panicked, or when its answer has been sent (see above), unless [Detach] is
// called. Middleware panics if l is nil or was not made by [New].
func (l *Limiter) Middleware() fiber.Handler {
	if l == nil || l.gate == nil {
		panic("fibermw: Limiter.Middleware: the limiter is nil or zero: make one with New")
	}
	g := l.gate
	return func(c fiber.Ctx) error {
		fast := c.RequestCtx()
		if fast.UserValue(l) != nil { // a router has sent the request here again
			return c.Next()
		}
		fast.SetUserValue(l, true)
		x := begin(c)
		err := x.returned(g.Serve(x, x.request(), c, proceed))
		if !x.isLate() && timedOut(c) == nil {
			fast.RemoveUserValue(l)
		}
		x.end()
		return err
	}
}

// proceed calls the next handler.
func proceed(w http.ResponseWriter, c fiber.Ctx) error {
	x := w.(*exchange)
	x.passed = true
	x.store()
	x.decided()
	err := x.next()
	if x.onStatus != nil && !x.isLate() && timedOut(c) == nil {
		if err != nil {
			err = answerError(c, err)
		}
		for _, name := range gate.StoreFields {
			x.reload(name)
		}
		x.onStatus(c.Response().StatusCode())
		x.store()
	}
	return err
}

// answerError has the app answer err, as the app does after all middleware.
func answerError(c fiber.Ctx, err error) error {
	if c.App().ErrorHandler(c, err) != nil {
		return c.SendStatus(fiber.StatusInternalServerError)
	}
	return nil
}

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units: see [nethttp.Limiter.Quota]. routes are methods and paths for which to ask, such as
// "GET /search". Lifted functions see them, and those of fiber.Ctx see the request of the handler
// itself. Quota panics if l is nil or was not made by [New], or if a route is not a method and a
// path.
func (l *Limiter) Quota(routes ...string) fiber.Handler {
	if l == nil || l.gate == nil {
		panic("fibermw: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return func(c fiber.Ctx) error {
		x := begin(c)
		x.findUnread()
		err := x.returned(serve(x, Request(c), c))
		x.end()
		return err
	}
}

// withRequest makes r the request that lifted functions share.
func withRequest(c fiber.Ctx, r *http.Request) fiber.Ctx {
	c.RequestCtx().UserValue(exchangeKey{}).(*exchange).bridged = r
	return c
}

// PlainText is [nethttp.PlainText], for [Config].Denied.
func PlainText(c fiber.Ctx, o core.Outcome) error {
	x := begin(c)
	gate.PlainText(x, x.request(), o)
	x.end()
	return nil
}

type outcomeKey struct{}

func withOutcome(c fiber.Ctx, o core.Outcome) fiber.Ctx {
	c.Locals(outcomeKey{}, o)
	return c
}

// OutcomeFrom returns the outcome of the request with context c, and whether there is
// one. With several limiters, it is the outcome of the innermost one that c has reached
// and that has [Config].OutcomeInContext set.
func OutcomeFrom(c fiber.Ctx) (core.Outcome, bool) {
	o, ok := c.Locals(outcomeKey{}).(core.Outcome)
	return o, ok
}
