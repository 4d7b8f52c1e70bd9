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
	// way of the framework. The header fields are set when it is called. What it
	// returns, Admit returns. nil: a problem document or plain text, as [Config]
	// says.
	Denied func(http.ResponseWriter, R, core.Outcome) error

	// SkipPreflight exempts CORS preflight requests, as [Config] says.
	SkipPreflight bool

	// Attach puts the outcome of a request that goes on where later handlers
	// find it, and returns the request that they are to have. nil: nowhere.
	Attach func(R, core.Outcome) R
}

// Gate is a limiter for the requests of a framework built upon net/http, of type
// R: what adapters are made of, so that all decide and answer alike. Those who
// use net/http or a framework that has an adapter do not need it: see [Limiter].
// It is safe for concurrent use.
type Gate[R any] struct {
	engine        *core.Limiter[R]
	fields        *headers.Writer
	denied        func(http.ResponseWriter, R, core.Outcome) error
	skipPreflight bool
	attach        func(R, core.Outcome) R
}

// NewGate returns a gate, or an error that reports every mistake in config.
func NewGate[R any](config GateConfig[R]) (*Gate[R], error) {
	engine, err := core.New(config.Config)
	policies := headers.Policies(config.Rules)
	if err != nil { // what is wrong with the rules has been said
		return nil, errors.Join(err, config.Headers.Validate(policies))
	}
	fields, err := headers.New(config.Headers, policies)
	if err != nil {
		return nil, err
	}
	return &Gate[R]{
		engine:        engine,
		fields:        fields,
		denied:        config.Denied,
		skipPreflight: config.SkipPreflight,
		attach:        config.Attach,
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
// Otherwise Admit has answered, except where nobody listens any more, and the
// error is what Denied returned. w and r are what net/http has of the request.
func (g *Gate[R]) Admit(w http.ResponseWriter, r *http.Request, request R) (R, bool, error) {
	if g.skipPreflight && isPreflight(r) {
		return request, true, nil
	}
	o := g.engine.Decide(r.Context(), request)
	if o.Verdict() == core.Abandoned {
		abandon(w, o.Err())
		return request, false, nil
	}
	g.fields.Write(w.Header(), &o)
	if !o.Allowed() {
		return request, false, g.deny(w, r, request, &o)
	}
	if delay := o.Delay(); delay > 0 && !awaitTurn(w, r.Context(), delay) {
		return request, false, nil
	}
	if g.attach != nil {
		request = g.attach(request, o)
	}
	return request, true, nil
}

// deny answers a request that was not allowed.
func (g *Gate[R]) deny(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome) error {
	replaceContent(w.Header())
	if g.denied != nil {
		return g.denied(w, request, *o)
	}
	if prefersText(r.Header["Accept"]) {
		writeText(w, r, o)
	} else {
		writeProblem(w, r, o)
	}
	return nil
}

// isPreflight follows the Fetch standard, section 3.2.2.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions &&
		len(r.Header["Origin"]) > 0 &&
		len(r.Header["Access-Control-Request-Method"]) > 0
}
