// Package gate is the base of all adapters. It decides, sets the fields, answers, and waits in the
// queue, so all adapters behave alike.
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
	"github.com/weir-go/weir/internal/http/watch"
)

// Config configures a [Gate]: what the program sets, and what the adapter knows of its framework.
// The zero value of every field except Rules is a usable default.
type Config[R any] struct {
	core.Config[R]
	Framework[R]

	// Headers chooses the response header fields.
	Headers headers.Options

	// Logger gets a line when a rule cannot decide, and then one a minute for each rule and part
	// that failed. nil: the logger that slog.Default returns at that time.
	Logger *slog.Logger

	// SkipPreflight lets every request that looks like a CORS preflight pass all rules.
	SkipPreflight bool

	// OutcomeInContext has Attach store the outcome of each request.
	OutcomeInContext bool

	// DrainLimit is the most bytes that [answer.Drain] reads. 0: answer.DrainLimit.
	DrainLimit int64
}

// Framework is what a gate needs of a framework.
type Framework[R any] struct {
	// Context returns the context of a request. Required for [Gate.Decide] and [Gate.Explain].
	Context func(R) context.Context

	// Denied answers a request that was denied or could not be decided, by the means of the
	// framework, with the status of [core.Outcome.Status]. The header fields are set before the
	// call. Serve returns its error. Denied is not called for a request whose context has ended.
	// nil: a problem document or plain text, as the client prefers.
	Denied func(http.ResponseWriter, R, core.Outcome) error

	// Attach stores the outcome, allowed or not, where other handlers and Denied find it. It
	// returns the request to pass to them. It is called if OutcomeInContext is set.
	Attach func(R, core.Outcome) R

	// Committed reports whether the response has begun. A refused request then ends without an
	// answer, and Denied is not called. nil: the response counts as not begun, because net/http
	// does not say.
	Committed func(R) bool

	// WithContext returns request with ctx as its context, in which [Detach] and [Spend] find the
	// request. It is called before Attach, and only for requests that have an end. nil: they do not
	// find it.
	WithContext func(request R, ctx context.Context) R

	// OnStatus calls f with the status of the answer, just before the fields are sent, or not at all
	// if next writes nothing. It returns the writer that next gets. nil: OnStatus of package watch.
	OnStatus func(w http.ResponseWriter, request R, f func(status int)) http.ResponseWriter

	// Restores says that the framework's writer writes the fields again after next, and that the
	// adapter knows a request that it has charged already.
	Restores bool

	// Answered returns what the framework knows about the answer after next has returned err, or
	// has panicked (err is nil). If nothing is written yet, status is the one that the framework
	// will send: that of err if it has one, or 0 if it is not known. Serve ignores such a status
	// after a panic, and if the client has left.
	// nil: if a rule has a FinalCost, Serve passes on a writer that counts.
	Answered func(request R, err error) (status int, bytes int64, written bool)

	// Sending is set by a framework that sends answers after next has returned. nil: a request ends
	// when next returns.
	Sending watch.Sending[R]
}

// Gate limits the requests of a framework. R is the framework's request type. A Gate is safe for
// concurrent use.
type Gate[R any] struct {
	engine        *core.Limiter[R]
	options       headers.Options
	newest        atomic.Pointer[answering]
	former        formerAnswerings
	undecided     *undecided
	bridged       bridged
	denied        func(http.ResponseWriter, R, core.Outcome) error
	drainLimit    int64
	skipPreflight bool
	preflights    atomic.Int64 // requests that SkipPreflight let pass
	context       func(R) context.Context
	attach        func(R, core.Outcome) R
	committed     func(R) bool
	withContext   func(R, context.Context) R
	onStatus      func(http.ResponseWriter, R, func(int)) http.ResponseWriter
	restores      bool
	waits         atomic.Bool  // the fields are written when the status is
	looked        atomic.Int32 // how many answers it looked at, up to firstLooks
	answered      func(R, error) (int, int64, bool)
	sending       watch.Sending[R]
}

// New returns a gate, or an error that reports every mistake in config.
func New[R any](config Config[R]) (*Gate[R], error) {
	g := &Gate[R]{
		options:       clone(config.Headers),
		undecided:     &undecided{logger: config.Logger},
		denied:        config.Denied,
		drainLimit:    cmp.Or(config.DrainLimit, answer.DrainLimit),
		skipPreflight: config.SkipPreflight,
		context:       config.Context,
		committed:     config.Committed,
		withContext:   config.WithContext,
		onStatus:      config.OnStatus,
		restores:      config.Restores,
		answered:      config.Answered,
		sending:       config.Sending,
	}
	if config.OutcomeInContext {
		g.attach = config.Attach
	}
	if g.onStatus == nil {
		g.onStatus = func(w http.ResponseWriter, _ R, f func(int)) http.ResponseWriter { return watch.OnStatus(w, f) }
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

// Decide decides request and takes its cost, without answering it. If a rule has a concurrency
// limit or a FinalCost, the caller must call [core.Outcome.End] when the request is over.
func (g *Gate[R]) Decide(request R) core.Outcome {
	o, _ := g.DecideCall(g.context(request), request)
	return o
}

// await waits for the turn of the request with outcome o. It returns true if the context of the
// request has ended.
func (g *Gate[R]) await(ctx context.Context, o *core.Outcome) (left bool) {
	err := g.engine.Wait(ctx, o)
	if errors.Is(err, core.ErrQueueFull) {
		g.undecided.queueFull(o)
		return false
	}
	return err != nil
}

// State returns a snapshot of the limiter: see [core.Limiter.State].
func (g *Gate[R]) State() core.State {
	s := g.engine.State()
	s.Preflights = g.preflights.Load()
	return s
}

// Serve decides request, sets the header fields and, if a limit is a queue, waits for the request's
// turn. It passes on a request that it has charged already: see again. If the request may go on,
// Serve calls next and returns its error. next gets w, or a counting writer around w, and request,
// or the results of Attach and WithContext. Make next once, not for every request.
//
// If the request may not go on, Serve answers it, unless another answer has begun, and returns the
// error of Denied. w and r are the net/http forms of the response and of request.
//
// The request ends when next returns or panics, or when Sending says so, unless [Detach] was called.
func (g *Gate[R]) Serve(w http.ResponseWriter, r *http.Request, request R,
	next func(http.ResponseWriter, R) error) error {
	if g.skipPreflight && isPreflight(r) {
		g.preflights.Add(1)
		return next(w, request)
	}
	if !g.restores && g.again(r, w.Header()) {
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
	err = g.proceed(w, request, &o, next)
	if g.attach != nil {
		keepPattern(r, request)
	}
	return err
}

// keepPattern copies the matched pattern from request to r, if request is a copy of r: outer
// handlers read it there. It also copies the form, whose files net/http removes.
func keepPattern[R any](r *http.Request, request R) {
	if inner, ok := any(request).(*http.Request); ok && inner != r {
		r.Pattern = inner.Pattern
		r.MultipartForm = cmp.Or(r.MultipartForm, inner.MultipartForm)
	}
}

// admit is the part of Serve before next. It reports whether the request may go on, and returns the
// error of Denied.
func (g *Gate[R]) admit(w http.ResponseWriter, r *http.Request, request R,
	o *core.Outcome) (R, bool, error) {
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

// abandon answers a request whose context has ended with a bare 503. The client may have left; then
// only logs and middleware see the status. But a context also ends by a deadline of the server, or
// when the server shuts down, and a client that still listens must not take an empty 200 for the
// answer.
func (g *Gate[R]) abandon(w http.ResponseWriter, request R, o *core.Outcome) {
	if g.committed != nil && g.committed(request) {
		return
	}
	watch.MarkOwn(w)
	h := w.Header()
	answer.ReplaceContent(h)
	g.answering(o).fields.Write(h, o) // Retry-After alone, as on every 503
	w.WriteHeader(o.Status())
}

// deny answers a request that was denied or could not be decided. begun reports whether the header
// had fields before those of a.
func (g *Gate[R]) deny(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome,
	a *answering, begun bool) error {
	if g.committed != nil && g.committed(request) {
		return nil
	}
	watch.MarkOwn(w)
	if o.Verdict() == core.Unavailable {
		answer.TellUndecided(w, o.Err())
	}
	answer.Drain(w, r, g.drainLimit)
	// Otherwise there are no fields to delete, which saves a fifth of a denial.
	if begun || g.options.Custom != nil || g.options.ShadowField != "" {
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
		writeProblem(w, r, o, status, a.violated, g.options.Body)
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
