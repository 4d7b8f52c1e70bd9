// Package gate is what the adapters for net/http and frameworks on it are made of, so that all of
// them decide and answer alike.
package gate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
)

// Config configures a [Gate]. The zero value of every field but Rules is a usable
// default.
type Config[R any] struct {
	core.Config[R]

	// Headers chooses the response header fields.
	Headers headers.Options

	// Denied answers a request that is denied or could not be decided, in the way of
	// the framework, with the status of [core.Outcome.Status]. The header fields are set
	// when it is called. Serve returns its error. Denied is not called for a request
	// whose context has ended. nil: a problem document or plain text, whichever the client prefers.
	Denied func(http.ResponseWriter, R, core.Outcome) error

	// SkipPreflight lets anybody past every rule with a request that looks like a CORS
	// preflight.
	SkipPreflight bool

	// Logger gets a line when a rule cannot decide, and then one a minute for each rule and what failed. nil: the
	// logger that slog.Default returns at that time.
	Logger *slog.Logger

	// Attach stores the outcome, allowed or not, where other handlers and Denied find
	// it. It returns the request to pass to them. nil: the outcome is not stored.
	Attach func(R, core.Outcome) R

	// Committed reports whether the response has begun, so that it is too late for an
	// answer. A request that may not go on then ends without an answer, and Denied is
	// not called. nil: the response counts as not begun, because net/http does not
	// tell.
	Committed func(R) bool

	// WithContext returns request with ctx as its context, so that [Detach] and [Spend]
	// find the request there. It is called before Attach, and only for requests that have
	// an end. nil: they do not find it.
	WithContext func(request R, ctx context.Context) R

	// Answered says what the framework knows of the answer when next has returned err,
	// or has panicked, which is nil. If nothing is written yet, status is the one that
	// the framework is about to send: that of err if it has one, 0 if it is not known.
	// Serve then ignores it after a panic, and if the client has left. nil: Serve
	// passes on a writer that counts, if a rule has a FinalCost.
	Answered func(request R, err error) (status int, bytes int64, written bool)
}

// Gate limits the requests of a framework that is built on net/http. R is the
// framework's request type. A Gate is safe for concurrent use.
type Gate[R any] struct {
	engine        *core.Limiter[R]
	options       headers.Options
	newest        atomic.Pointer[answering]
	former        formerAnswerings
	undecided     *undecided
	denied        func(http.ResponseWriter, R, core.Outcome) error
	skipPreflight bool
	preflights    atomic.Int64 // that were skipped
	attach        func(R, core.Outcome) R
	committed     func(R) bool
	withContext   func(R, context.Context) R
	answered      func(R, error) (int, int64, bool)
}

// New returns a gate, or an error that reports every mistake in config.
func New[R any](config Config[R]) (*Gate[R], error) {
	g := &Gate[R]{
		options:       clone(config.Headers),
		undecided:     &undecided{logger: config.Logger},
		denied:        config.Denied,
		skipPreflight: config.SkipPreflight,
		attach:        config.Attach,
		committed:     config.Committed,
		withContext:   config.WithContext,
		answered:      config.Answered,
	}
	observer := config.Observer
	config.Observer = &preparing[R]{observer, g}
	engine, err := core.New(config.Config)
	if err := g.alsoInFields(config.Rules, err); err != nil {
		return nil, err
	}
	g.engine = engine
	if observer != nil {
		observer.ObserveLimiter(g)
	}
	return g, nil
}

// Decide decides request and takes its cost, without answering it. r is the net/http
// form of request. If a rule has a concurrency limit or a FinalCost, whoever calls Decide
// must call [core.Outcome.End] when the request is over.
func (g *Gate[R]) Decide(r *http.Request, request R) core.Outcome {
	o, _ := g.DecideCall(r.Context(), request)
	return o
}

// await waits for the turn of the request with outcome o. It reports whether the context of the
// request has ended.
func (g *Gate[R]) await(ctx context.Context, o *core.Outcome) (left bool) {
	err := g.engine.Wait(ctx, o)
	if errors.Is(err, core.ErrQueueFull) {
		g.undecided.queueFull(o)
		return false
	}
	return err != nil
}

// State returns what the limiter does: see [core.Limiter.State].
func (g *Gate[R]) State() core.State {
	s := g.engine.State()
	s.Preflights = g.preflights.Load()
	return s
}

// Serve decides request, sets the header fields and, if a limit is a queue, waits for
// the request's turn. If the request may go on, Serve calls next and returns its error.
// next gets w, or a writer that counts for it, and request, or what Attach and
// WithContext returned. Make next once, not for every request.
//
// If the request may not go on, Serve answers it, unless another answer has begun, and
// returns the error of Denied. w and r are the net/http form of the response and of
// request.
//
// The end of next is the end of the request, whether it returns or panics, unless
// [Detach] has been called.
func (g *Gate[R]) Serve(w http.ResponseWriter, r *http.Request, request R, next func(http.ResponseWriter, R) error) error {
	if g.skipPreflight && isPreflight(r) {
		g.preflights.Add(1)
		return next(w, request)
	}
	var o core.Outcome
	ends := g.engine.DecideInto(r.Context(), request, &o)
	g.undecided.note(&o)
	if ends {
		return g.serveToEnd(w, r, request, &o, next)
	}
	request, ok, err := g.admit(w, r, request, &o)
	if !ok {
		return err
	}
	err = next(w, request)
	if g.attach != nil {
		keepPattern(r, request)
	}
	return err
}

// keepPattern notes the pattern that matched in r, if request is a copy of it: handlers
// outside look there. Likewise a form, whose files net/http removes.
func keepPattern[R any](r *http.Request, request R) {
	if inner, ok := any(request).(*http.Request); ok && inner != r {
		r.Pattern = inner.Pattern
		r.MultipartForm = cmp.Or(r.MultipartForm, inner.MultipartForm)
	}
}

// admit does what Serve does before next, and reports whether the request may go on. The
// error is that of Denied.
func (g *Gate[R]) admit(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome) (R, bool, error) {
	left := g.await(r.Context(), o)
	if g.attach != nil {
		request = g.attach(request, *o)
	}
	if left || o.Verdict() == core.Abandoned {
		g.abandon(w, request, o)
		return request, false, nil
	}
	a, h := g.answering(o), w.Header()
	begun := len(h) > 0
	a.fields.Write(h, o)
	if !o.Allowed() {
		return request, false, g.deny(w, r, request, o, a, begun)
	}
	return request, true, nil
}

// abandon ends a request whose context has ended, with a bare 503. A context also ends by a
// deadline of the server, or when it shuts down, and its error does not tell which: a client
// that still listens must not take an empty 200 for the answer. If it has left, logs and
// middleware see the status.
func (g *Gate[R]) abandon(w http.ResponseWriter, request R, o *core.Outcome) {
	if g.committed != nil && g.committed(request) {
		return
	}
	h := w.Header()
	answer.ReplaceContent(h)
	g.answering(o).fields.Write(h, o) // Retry-After alone, as on every 503
	w.WriteHeader(o.Status())
}

// deny answers a request that was denied or could not be decided. begun says that there were fields
// before those of a.
func (g *Gate[R]) deny(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome, a *answering, begun bool) error {
	if g.committed != nil && g.committed(request) {
		return nil
	}
	if begun || g.options.Custom != nil || g.options.ShadowField != "" { // otherwise none is there: saves a fifth of a denial
		answer.DeleteContent(w.Header())
	}
	if g.denied != nil {
		answer.SetUncached(w.Header())
		return g.denied(w, request, *o)
	}
	status := o.Status()
	if answer.PrefersText(r.Header["Accept"]) {
		answer.WriteUncached(w, r, status, answer.Text, plainText(w, o, status))
	} else {
		writeProblem(w, r, o, status, a.violated)
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
