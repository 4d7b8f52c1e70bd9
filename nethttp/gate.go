package nethttp

import (
	"errors"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
)

// GateConfig configures a [Gate]. The zero value of every field but Rules is a usable
// default.
type GateConfig[R any] struct {
	core.Config[R] // Rules, Backend, Fallback, Instances, Observe

	// Headers chooses the response header fields. Zero: as in [Config].
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided, in the way of
	// the framework. The header fields are set when it is called. Admit returns its
	// error. Denied is not called for a request that the server's own deadline ended:
	// see [Config]. nil: a problem document or plain text, as in [Config].
	Denied func(http.ResponseWriter, R, core.Outcome) error

	// SkipPreflight exempts CORS preflight requests, as in [Config].
	SkipPreflight bool

	// MaxWaiting is how many requests may wait for their turn at once, as in [Config].
	// 0: 10,000.
	MaxWaiting int

	// Attach stores the outcome, allowed or not, where other handlers and Denied find
	// it. It returns the request to pass to them. nil: the outcome is not stored.
	Attach func(R, core.Outcome) R

	// Committed reports whether the response has begun, so that it is too late for an
	// answer. A request that may not go on then ends without an answer, and Denied is
	// not called. nil: the response counts as not begun, because net/http does not
	// tell.
	Committed func(R) bool
}

// Gate limits the requests of a framework that is built on net/http. R is the
// framework's request type. Adapters are built on a Gate, so that all of them decide
// and answer alike. With net/http, or with a framework that has an adapter, use a
// [Limiter] instead. A Gate is safe for concurrent use.
type Gate[R any] struct {
	engine        *core.Limiter[R]
	fields        *headers.Writer
	namesRules    bool // in the answers to denied requests
	room          *waitingRoom
	denied        func(http.ResponseWriter, R, core.Outcome) error
	skipPreflight bool
	attach        func(R, core.Outcome) R
	committed     func(R) bool
}

// NewGate returns a gate, or an error that reports every mistake in config.
func NewGate[R any](config GateConfig[R]) (*Gate[R], error) {
	engine, err := core.New(config.Config)
	policies := headers.Policies(config.Rules)
	room, roomErr := newWaitingRoom(config.MaxWaiting)
	if err = errors.Join(err, roomErr); err != nil { // core.New has reported the mistakes in the rules
		return nil, errors.Join(err, config.Headers.Validate(policies))
	}
	fields, err := headers.New(config.Headers, policies)
	if err != nil {
		return nil, err
	}
	return &Gate[R]{
		engine:        engine,
		fields:        fields,
		room:          room,
		namesRules:    config.Headers.Show != headers.Never,
		denied:        config.Denied,
		skipPreflight: config.SkipPreflight,
		attach:        config.Attach,
		committed:     config.Committed,
	}, nil
}

// Decide decides request and takes its cost, without answering it. r is the net/http
// form of request.
func (g *Gate[R]) Decide(r *http.Request, request R) core.Outcome {
	return g.engine.Decide(r.Context(), request)
}

// Admit decides request, sets the header fields and, if a limit is a queue, waits for
// the request's turn. It reports whether the request may go on. If so, pass the
// returned request to the next handler: it is request itself, or what Attach returned.
//
// If not, Admit has answered, unless the client has left or another answer has begun.
// The error is the one that Denied returned. w and r are the net/http form of the
// response and of request.
func (g *Gate[R]) Admit(w http.ResponseWriter, r *http.Request, request R) (R, bool, error) {
	if g.skipPreflight && isPreflight(r) {
		return request, true, nil
	}
	o := g.engine.Decide(r.Context(), request)
	delay := o.Delay()
	if delay > 0 {
		if g.room.enter() {
			defer g.room.leave()
		} else {
			o.Fail(ErrQueueFull)
		}
	}
	if g.attach != nil {
		request = g.attach(request, o)
	}
	if o.Verdict() == core.Abandoned {
		g.abandon(w, request, o.Err())
		return request, false, nil
	}
	g.fields.Write(w.Header(), &o)
	if !o.Allowed() {
		return request, false, g.deny(w, r, request, &o)
	}
	if delay > 0 {
		if err := awaitTurn(r.Context(), delay); err != nil {
			g.abandon(w, request, err)
			return request, false, nil
		}
	}
	return request, true, nil
}

// abandon ends a request whose context ended with err.
func (g *Gate[R]) abandon(w http.ResponseWriter, request R, err error) {
	if g.committed == nil || !g.committed(request) {
		answerAbandoned(w, err)
	}
}

// deny answers a request that was denied or could not be decided.
func (g *Gate[R]) deny(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome) error {
	if g.committed != nil && g.committed(request) {
		return nil
	}
	replaceContent(w.Header())
	if g.denied != nil {
		return g.denied(w, request, *o)
	}
	if prefersText(r.Header["Accept"]) {
		writeText(w, r, o)
	} else {
		writeProblem(w, r, o, g.namesRules)
	}
	return nil
}

// isPreflight reports whether r is a CORS preflight request (Fetch standard, section
// 3.2.2).
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions &&
		len(r.Header["Origin"]) > 0 &&
		len(r.Header["Access-Control-Request-Method"]) > 0
}
