// Package gate is the base of all adapters. It decides, sets the fields, answers, and waits in the
// queue, so all adapters behave alike.
package gate

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/ground/turns"
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
	// nil: a problem document or plain text, as the client prefers, and for a call of gRPC the code.
	Denied func(http.ResponseWriter, R, core.Outcome) error

	// Attach stores the outcome, allowed or not, where other handlers and Denied find it. It
	// returns the request to pass to them. It is called if OutcomeInContext is set.
	Attach func(R, core.Outcome) R

	// Committed reports whether the response has begun. A refused request then ends without an
	// answer, and Denied is not called. nil: the response counts as not begun, because net/http
	// does not say.
	Committed func(R) bool

	// GivenUp reports whether the framework has given up a request whose context has ended, and may
	// use it at this moment. Attach is then not called. nil: it never does.
	GivenUp func(http.ResponseWriter) bool

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
	ruling[R]
	placing       placing[R]
	undecided     *undecided
	bridged       bridged
	denied        func(http.ResponseWriter, R, core.Outcome) error
	drainLimit    int64
	skipPreflight bool
	preflights    atomic.Int64 // requests that SkipPreflight let pass
	attach        func(R, core.Outcome) R
	committed     func(R) bool
	givenUp       func(http.ResponseWriter) bool
	withContext   func(R, context.Context) R
	answered      func(R, error) (int, int64, bool)
	sending       watch.Sending[R]
}

// New returns a gate, or an error that reports every mistake in config.
func New[R any](config Config[R]) (*Gate[R], error) {
	g := &Gate[R]{
		undecided:     &undecided{logger: config.Logger},
		denied:        config.Denied,
		drainLimit:    cmp.Or(config.DrainLimit, answer.DrainLimit),
		skipPreflight: config.SkipPreflight,
		committed:     config.Committed,
		givenUp:       config.GivenUp,
		withContext:   config.WithContext,
		answered:      config.Answered,
		sending:       config.Sending,
	}
	g.options, g.context = clone(config.Headers), config.Context
	g.placing.ruling, g.placing.restores = &g.ruling, config.Restores
	if config.OutcomeInContext {
		g.attach = config.Attach
	}
	if g.placing.onStatus = config.OnStatus; g.placing.onStatus == nil {
		g.placing.onStatus = func(w http.ResponseWriter, _ R, f func(int)) http.ResponseWriter {
			return watch.OnStatus(w, f)
		}
	}
	if turns.Validate(config.Headers.MaxPromise) == nil { // otherwise the fields report it
		config.MaxPromise = config.Headers.MaxPromise
	}
	observer := config.Observer
	config.Observer = &preparing[R]{observer, &g.ruling}
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
	if !g.placing.restores && g.again(r, w.Header()) {
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
	err = g.placing.proceed(w, request, &o, next)
	if g.attach != nil {
		keepPattern(r, request)
	}
	return err
}

// again reports whether g has already charged the request of r for the answer with header h: a
// router has sent it through the same limiter twice. A request with an end is known by its context.
// Others are charged each time: their fields in h would not tell a request that was charged from
// one that was denied, or from another one of the same answer.
//
// The answer must be the same: a handler may serve several requests of a batch, with answers of
// their own, in the context of one.
func (g *Gate[R]) again(r *http.Request, h http.Header) bool {
	if !g.newest.Load().ends {
		return false
	}
	for e := endOf(r.Context()); e != nil; e = e.outer {
		if e.gate == any(g) && reflect.ValueOf(e.answer).Pointer() == reflect.ValueOf(h).Pointer() {
			return true
		}
	}
	return false
}

// serveToEnd is Serve for a request that is allowed and has an end. The request ends when
// serveToEnd returns or panics, or when its answer has been sent.
func (g *Gate[R]) serveToEnd(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome,
	next func(http.ResponseWriter, R) error) (err error) {
	returned, admitted := false, false
	var writer *watch.Writer // nil: no rule depends on the answer, or the framework knows it
	defer func() {
		ended := r.Context().Err()
		result := core.Result{Panicked: !returned, Left: left(ended, admitted)}
		// After a time-out outside, another goroutine may send an answer that is not this one.
		if admitted && returned && ended == nil && g.endsWhenSent(request, err, o) {
			return
		}
		defer func() { o.End(result) }() // even if the framework's writer panics
		written := false
		switch {
		case !admitted:
			if returned && !o.Allowed() {
				result.Status = o.Status()
			}
		case g.answered != nil:
			var status int
			var bytes int64
			if status, bytes, written = g.answered(request, err); written || returned {
				result.Bytes = bytes
			}
			result.Status = answeredWith(status, written, &result, ended)
		case writer != nil:
			var status int
			status, written = writer.Answer(err)
			result.Bytes = writer.Bytes()
			result.Status = answeredWith(status, written, &result, ended)
		}
		if err != nil {
			g.bridged.note(err, written || writer == nil, g.undecided.logger)
		}
	}()
	if g.withContext != nil {
		request = g.withContext(request, withEnd(r.Context(), o, g, w.Header()))
	}
	if request, admitted, err = g.admit(w, r, request, o); admitted {
		if g.answered == nil && g.answering(o).watches {
			w, writer = watch.Around(w, nil)
		}
		err = g.placing.proceed(w, request, o, next)
		keepPattern(r, request)
	}
	returned = true
	return err
}

// left reports whether the client has left. ended is the error of the context. If the server has set
// a deadline and it has passed, the client still gets the answer of a handler that was called.
func left(ended error, admitted bool) bool {
	return ended != nil && (!admitted || !errors.Is(ended, context.DeadlineExceeded))
}

// endsWhenSent reports whether the request ends when its answer has been sent, and arranges that.
func (g *Gate[R]) endsWhenSent(request R, err error, o *core.Outcome) bool {
	if g.sending == nil || !g.sending.Pending(request, err, g.answering(o).watches) {
		return false
	}
	if end, ok := o.Detach(); ok {
		g.sending.OnSent(request, func(status int, bytes int64) {
			end(core.Result{Status: status, Bytes: bytes})
		})
	}
	return true
}

// answeredWith returns the status of an answer, or 0 if it is not known. result has all but the
// status. ended is the error of the context.
func answeredWith(status int, written bool, result *core.Result, ended error) int {
	switch {
	case !written && (result.Panicked || result.Left || ended != nil && result.Bytes == 0):
		return 0 // an outer handler may still answer
	case watch.IsInformational(status):
		return http.StatusOK // net/http sends it after the informational answers
	}
	return status
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
	left := g.await(r.Context(), o) || o.Verdict() == core.Abandoned
	if g.attach != nil && !(left && g.givenUp != nil && g.givenUp(w)) {
		request = g.attach(request, *o)
	}
	if left {
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
	watch.MarkOwn(w, o.Status())
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
	status := o.Status()
	switch {
	case g.denied != nil:
		watch.MarkOwn(w, watch.AnyStatus)
	case answer.IsGRPC(r):
		watch.MarkOwn(w, answer.GRPCStatus(r, status))
	default:
		watch.MarkOwn(w, status)
	}
	if o.Verdict() == core.Unavailable {
		answer.TellUndecided(w, o.Err())
	}
	// Otherwise there are no fields to delete, which saves a fifth of a denial.
	if begun || g.options.Custom != nil || g.options.ShadowField != "" {
		answer.DeleteContent(w.Header())
	}
	if g.denied != nil {
		answer.SetUncached(w.Header())
		err := g.denied(w, request, *o)
		answer.Drain(w, r, g.drainLimit) // after Denied, which may read the body itself
		return err
	}
	answer.Drain(w, r, g.drainLimit)
	if answer.IsGRPC(r) {
		writeGRPC(w, r, o, g.wait(told(w.Header(), o), o))
		return nil
	}
	if answer.PrefersText(r.Header["Accept"]) {
		answer.WriteUncached(w, r, status, answer.Text, plainText(w, r, o, status))
	} else {
		a.writeProblem(w, r, o, status, g.options.Body)
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

// Quota returns a function that answers a request with the quotas of its client. Each rule is asked
// for the key that it finds in the request itself, and takes nothing. If there are routes, the
// rules are asked for requests of these routes instead. withRequest returns request with r in place
// of its *http.Request. Quota panics if a route is malformed.
func (g *Gate[R]) Quota(routes []string, withRequest func(request R, r *http.Request) R,
) func(http.ResponseWriter, *http.Request, R) error {
	return newQuota(g, routes, withRequest).serve
}
