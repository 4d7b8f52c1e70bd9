package nethttp

import (
	"errors"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Rule is a rule for HTTP requests: see [core.Rule].
type Rule = core.Rule[*http.Request]

// Limiter limits the requests of net/http handlers. It is safe for concurrent use.
type Limiter struct{ Controls[*http.Request] }

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) {
	f := framework
	if config.Denied != nil {
		f.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) error {
			config.Denied(w, r, o)
			return nil
		}
	}
	controls, _, err := config.Gate(f)
	return gate.Made(&Limiter{controls}, err)
}

var framework = gate.Framework[*http.Request]{
	Context:     (*http.Request).Context,
	WithContext: (*http.Request).WithContext,
	Attach:      withOutcome,
}

// MustNew is [New] for package variables. It panics if config has a mistake.
func MustNew(config Config) *Limiter { return gate.Must(New(config)) }

// PerAddress returns a limiter with one rule, called per-address: each client address may send what
// rate allows, in a sliding window. source finds the address. [keyfuncs.Peer] is for servers that
// clients connect to directly; [keyfuncs.TrustedProxies] and others are for servers behind a proxy.
// No source is right for both, so there is no default.
//
// The counts are in the memory of this process. With a backend, such as one of package
// redisbackend, all limiters on it count together, so they need the same rate. While it fails, each
// process limits by itself.
//
// For anything else, such as a second rule, another algorithm or other header fields, use [New]. The
// error reports every mistake.
func PerAddress(
	rate limits.Rate, source keyfuncs.AddrSource, backend ...backends.Backend,
) (*Limiter, error) {
	rules, store, err := gate.PerAddress(rate, source, backend)
	limiter, other := New(Config{Rules: rules, Backend: store})
	return gate.Made(limiter, errors.Join(err, other))
}

// MustPerAddress is [PerAddress] for package variables. It panics on a mistake.
func MustPerAddress(
	rate limits.Rate, source keyfuncs.AddrSource, backend ...backends.Backend,
) *Limiter {
	return gate.Must(PerAddress(rate, source, backend...))
}

// Handler returns a handler that passes only allowed requests to next. All handlers of one limiter
// count together. The request ends when next returns or panics, unless [Detach] is called. If a
// rule has a FinalCost, next gets a ResponseWriter that counts, otherwise the server's own. Handler
// panics if next is nil, or if l is nil or was not made by [New].
//
// If a rule has an end, do not use Handler by a bridge of another framework, such as
// echo.WrapMiddleware or Fiber's adaptor.HTTPMiddleware: the handlers run, or their errors are
// answered, after the request has ended. Use the framework's own adapter. Handler knows these two
// bridges. It then charges what was not written before the end, and logs one line.
func (l *Limiter) Handler(next http.Handler) http.Handler {
	if l == nil || l.gate == nil {
		panic("nethttp: Limiter.Handler: the limiter is nil or zero: make one with New")
	}
	if next == nil {
		panic("nethttp: Limiter.Handler: next is nil")
	}
	var around error // nil: net/http itself calls next
	if bridge := gate.BridgeOf(next); bridge != nil {
		around = bridge
	}
	return &handler{l.gate, func(w http.ResponseWriter, r *http.Request) error {
		next.ServeHTTP(w, r)
		return around
	}}
}

// handler is what Limiter.Handler returns.
type handler struct {
	gate *gate.Gate[*http.Request]
	next func(http.ResponseWriter, *http.Request) error
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = h.gate.Serve(w, r, r, h.next) // Denied returns nil, and next an error for the gate alone
}

// Explain is [Controls.Explain]. Rules whose cost is known only inside a handler, such as those of
// package tokens, say what one more unit would meet.
func (l *Limiter) Explain(r *http.Request) core.Outcome {
	return l.Controls.Explain(r.WithContext(gate.AsQuestion(r.Context())))
}

// Quota returns a handler that tells a client how much it has left under each rule, and takes no
// units. The answer is JSON in the form of GitHub's /rate_limit:
//
//	{"resources":{"per-client":{"limit":100,"used":3,"remaining":97,"reset":1795345200}}}
//
// reset is the instant at which the client has its whole limit again, in seconds since the Unix
// epoch; a concurrency limit has none. "unit" says what the numbers count, if that is not requests.
// No cache may store the answer.
//
// The client is the one whom the Key of each rule finds in the request itself, so it sees the same
// numbers as in header fields. The handler shows no more than these: no shadow, no rule that is
// Hidden, with [headers.OnDenial] only rules that deny now, and with [headers.Omit] none. If a key is
// free to choose, such as a name in the query, anyone can ask for it: hide its rule.
//
// A rule is absent if it does not apply to the request of the handler itself. routes says for which
// requests to ask instead, such as "GET /search" and "POST /items": the rules see the request with
// this method and this path, and the answer has the rules of all routes. Of a rule that has another
// key for each route, the answer has the one that binds. Each route is one question to the backend.
// The rules of all routes read the same body, at most 1 MiB of it: beyond that the answer is a 413.
//
// If the backend or a function of a rule fails, the answer is a 503, as for other requests; the
// fallback is not asked. Put the handler beside the limited handlers, not behind the limiter, or
// asking costs a unit. It limits nothing: put another limiter around it if clients ask often. Quota
// panics if l is nil or was not made by [New], or if a route is not a method and a path.
func (l *Limiter) Quota(routes ...string) http.Handler {
	if l == nil || l.gate == nil {
		panic("nethttp: Limiter.Quota: the limiter is nil or zero: make one with New")
	}
	serve := l.gate.Quota(routes, withRequest)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = serve(w, r, r) // Denied returns nil
	})
}

// withRequest returns r, the request to ask the rules for.
func withRequest(_, r *http.Request) *http.Request { return r }

// PlainText answers a request that is denied or could not be decided with the status of
// [core.Outcome.Status] and one line of plain text, whatever the client prefers. Examples are "Too
// many requests: retry in 30 seconds." and "The service is at capacity: retry in 1 second." The
// line names no rule. PlainText is for [Config].Denied:
//
//	nethttp.Config{Rules: rules, Denied: nethttp.PlainText}
//
// It takes the wait from the header field Retry-After, if that is set. A call of gRPC gets the line
// as its message, as without Denied. If o is allowed or abandoned, PlainText does nothing.
func PlainText(w http.ResponseWriter, r *http.Request, o core.Outcome) { gate.PlainText(w, r, o) }
