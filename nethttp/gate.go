package nethttp

import (
	"errors"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
)

// GateConfig is what a [Gate] is made of. The zero value of every field but
// Rules is a usable default.
type GateConfig[R any] struct {
	core.Config[R] // Rules, Backend, Fallback, Instances, Observe

	// Headers chooses the response header fields. Zero: as [Config] says.
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided, in the
	// way of the framework; the server's own deadline is answered without it, as
	// [Config] says. The header fields are set when it is called. What it
	// returns, Admit returns. nil: a problem document or plain text, as [Config]
	// says.
	Denied func(http.ResponseWriter, R, core.Outcome) error

	// SkipPreflight exempts CORS preflight requests, as [Config] says.
	SkipPreflight bool

	// MaxWaiting is how many requests may wait for their turn at once, as [Config]
	// says. 0: 10,000.
	MaxWaiting int

	// Attach puts the outcome, allowed or not, where other handlers and Denied
	// find it, and returns the request that they are to have. nil: nowhere.
	Attach func(R, core.Outcome) R

	// Committed reports whether the response has begun, so that it is too late
	// for an answer: a request that may not go on then ends without one, and
	// Denied is not called. nil: never, since net/http does not say.
	Committed func(R) bool
}

// Gate is a limiter for the requests of a framework built upon net/http, of type
// R: what adapters are made of, so that all decide and answer alike. Those who
// use net/http or a framework that has an adapter do not need it: see [Limiter].
// It is safe for concurrent use.
type Gate[R any] struct {
	engine        *core.Limiter[R]
	fields        *headers.Writer
	names         bool // rules, in the answers to denied requests
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
	if err = errors.Join(err, roomErr); err != nil { // what is wrong with the rules has been said
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
		names:         config.Headers.Show != headers.Never,
		denied:        config.Denied,
		skipPreflight: config.SkipPreflight,
		attach:        config.Attach,
		committed:     config.Committed,
	}, nil
}

// Decide decides request and takes what it costs, without answering it. r is
// the request as net/http has it.
func (g *Gate[R]) Decide(r *http.Request, request R) core.Outcome {
	return g.engine.Decide(r.Context(), request)
}

// Admit decides request, sets the header fields, and reports whether the request
// may go on, after waiting for its turn if it has to. The next handler is then
// to have what Admit returns: request itself, unless Attach made another of it.
// Otherwise Admit has answered, except where nobody listens any more or another
// answer has begun, and the error is what Denied returned. w and r are what
// net/http has of the request.
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

// deny answers a request that was not allowed.
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
		writeProblem(w, r, o, g.names)
	}
	return nil
}

// isPreflight follows the Fetch standard, section 3.2.2.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions &&
		len(r.Header["Origin"]) > 0 &&
		len(r.Header["Access-Control-Request-Method"]) > 0
}
