package nethttp

import (
	"log/slog"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/gate"
	"github.com/weir-go/weir/limits/backends"
)

// Rule is a rule for HTTP requests: see [core.Rule].
type Rule = core.Rule[*http.Request]

// Config configures a [Limiter]. Only Rules is required.
type Config struct {
	// Rules are decided together for every request, in one atomic step. Required.
	Rules []Rule

	// Backend keeps the state. nil: in-process memory, see [memory.New].
	Backend backends.Backend

	// Fallback decides while Backend fails, for the rules that fall back. nil: in-process memory,
	// created at its first use and shared by all limiters on one Backend. See [core.Config].
	Fallback backends.Backend

	// Instances is how many processes share Backend at least. While Backend fails, each falls
	// back to its share of every limit. A Backend may count them: see [core.Config]. 0: each falls
	// back to the whole limit, unless Backend counts.
	Instances int

	// Observer observes decisions, ends and changes: counters of package stats, or
	// [core.ObserverFuncs]. nil: none.
	Observer core.Observer

	// Logger gets a line when a rule cannot decide, which explains a 503. Further lines follow once
	// a minute for each rule and cause, with the number of requests. Lines contain no key. For an
	// error of the program's own functions they contain only its type, unless it is a
	// [slog.LogValuer]. nil: slog.Default at the time of the line. To log nothing, use a
	// slog.DiscardHandler.
	Logger *slog.Logger

	// Headers chooses the response header fields. Zero: RateLimit and RateLimit-Policy
	// of the current IETF draft on every answer, and Retry-After on the answer to every
	// request that is not allowed.
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided. The status is that of
	// [core.Outcome.Status]: 429, or 503 if the request could not be decided or only rules with
	// DenyAs503 denied it. [PlainText] is a ready-made Denied. The header fields are already set,
	// including Cache-Control: no-store. The outcome has all rules, whatever Headers shows: tell
	// clients only about the rules that denied, and about no rule in a 503.
	//
	// Denied must write the status, otherwise net/http sends 200.
	//
	// A request whose context has ended gets a bare 503, and Denied is not called. nil: a problem
	// document or plain text, whichever the client prefers.
	Denied func(http.ResponseWriter, *http.Request, core.Outcome)

	// SkipPreflight lets requests pass all rules, even during a ban, if they look like a CORS
	// preflight: OPTIONS with the fields Origin and Access-Control-Request-Method. Any client can
	// send such a request. It is for CORS middleware inside the limiter, which answers preflights
	// itself. If another handler does work for them, that work is not limited. Other OPTIONS
	// requests count. It is better to put the CORS middleware outside the limiter and leave
	// SkipPreflight unset: browsers report a denied preflight as a broken page.
	SkipPreflight bool

	// MaxWaiting is the number of requests that may wait at once, if a limit is a leaky queue. Each
	// one holds a goroutine and its connection. A further request is answered with 503 and
	// Retry-After. Its outcome becomes [core.Unavailable] with the error [core.ErrQueueFull], after
	// the Observer has seen it allowed, and its slot stays spent. 0: 10,000.
	MaxWaiting int

	// OutcomeInContext makes [OutcomeFrom] return the outcome in later handlers and in Denied. It
	// costs a shallow copy of the request. A mux inside the limiter sets the values of PathValue on
	// the copy, so handlers outside the limiter do not see them. They see Pattern after next, which
	// the limiter copies.
	OutcomeInContext bool
}

// Limiter limits the requests of net/http handlers. It is safe for concurrent use.
type Limiter struct {
	gate *gate.Gate[*http.Request]
}

// New returns a limiter. The error reports every mistake in config.
func New(config Config) (*Limiter, error) {
	gateConfig := gate.Config[*http.Request]{
		Config: core.Config[*http.Request]{
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
		WithContext:   (*http.Request).WithContext,
	}
	if config.Denied != nil {
		gateConfig.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) error {
			config.Denied(w, r, o)
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

// Decide decides r and takes its cost, without answering it. It is for handlers that act on the
// outcome themselves. If a rule has a concurrency limit or a FinalCost, the caller must call
// [core.Outcome.End] when the request is over.
func (l *Limiter) Decide(r *http.Request) core.Outcome { return l.gate.Decide(r, r) }

// State returns the state of the limiter: see [core.State].
func (l *Limiter) State() core.State { return l.gate.State() }

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
