package nethttp

import (
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/gate"
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

// PlainText answers a request that is denied or could not be decided with the status of
// [core.Outcome.Status] and one line of plain text, whatever the client prefers. Examples are "Too
// many requests: retry in 30 seconds." and "The service is at capacity: retry in 1 second." The
// line names no rule. PlainText is for [Config].Denied:
//
//	nethttp.Config{Rules: rules, Denied: nethttp.PlainText}
//
// It takes the wait from the header field Retry-After, if that is set. If o is allowed or
// abandoned, PlainText does nothing.
func PlainText(w http.ResponseWriter, r *http.Request, o core.Outcome) { gate.PlainText(w, r, o) }
