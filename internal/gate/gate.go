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
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/answer"
)

// Config configures a [Gate]. The zero value of every field but Rules is a usable
// default.
type Config[R any] struct {
	core.Config[R] // Rules, Backend, Fallback, Instances, Observe, ObserveEnd; Companion is the Gate's own: leave it nil

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

	// MaxWaiting is how many requests may wait for their turn at once. 0: 10,000.
	MaxWaiting int

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
	newest        atomic.Pointer[answering] // for outcomes in which no rule applied
	room          *waitingRoom
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
	room, err := newWaitingRoom(config.MaxWaiting)
	if config.Companion != nil {
		err = errors.Join(err, errors.New("nethttp: companion: a Gate has one of its own, for the header fields: remove yours"))
	}
	g := &Gate[R]{
		options:       clone(config.Headers),
		room:          room,
		undecided:     &undecided{logger: config.Logger},
		denied:        config.Denied,
		skipPreflight: config.SkipPreflight,
		attach:        config.Attach,
		committed:     config.Committed,
		withContext:   config.WithContext,
		answered:      config.Answered,
	}
	config.Companion = g.answerBy
	engine, engineErr := core.New(config.Config)
	if err := errors.Join(g.alsoInFields(config.Rules, engineErr), err); err != nil {
		return nil, err
	}
	g.engine = engine
	return g, nil
}

// Decide decides request and takes its cost, without answering it. r is the net/http
// form of request. If a rule has a concurrency limit or a FinalCost, whoever calls Decide
// must call [core.Outcome.End] when the request is over.
func (g *Gate[R]) Decide(r *http.Request, request R) core.Outcome {
	return g.DecideCall(r.Context(), request)
}

// turnAway makes o unavailable, because the queue that it is to wait in is full.
func (g *Gate[R]) turnAway(o *core.Outcome) {
	o.Fail(ErrQueueFull)
	g.undecided.queueFull(o)
}

// Held returns how many units of concurrency limits are held, and since when the oldest
// request is under way that has an end: see [core.Limiter.Held].
func (g *Gate[R]) Held() (units int, oldest time.Time) { return g.engine.Held() }

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
	g.engine.DecideInto(r.Context(), request, &o)
	g.undecided.note(&o)
	if o.HasEnd() {
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
	if delay := o.Delay(); delay > 0 {
		return g.admitInTurn(w, r, request, o, delay)
	}
	return g.tell(w, r, request, o)
}

// admitInTurn is admit for a request that has to wait for its turn.
func (g *Gate[R]) admitInTurn(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome, delay time.Duration) (R, bool, error) {
	if !g.room.enter() {
		g.turnAway(o)
		return g.tell(w, r, request, o)
	}
	defer g.room.leave()
	request, ok, err := g.tell(w, r, request, o)
	if !ok {
		return request, false, err
	}
	if err := awaitTurn(r.Context(), delay); err != nil {
		g.room.left.Add(1)
		g.abandon(w, request, o, err)
		return request, false, nil
	}
	return request, true, nil
}

// tell sets the header fields, answers a request that may not go on, and reports whether it may. The
// error is that of Denied.
func (g *Gate[R]) tell(w http.ResponseWriter, r *http.Request, request R, o *core.Outcome) (R, bool, error) {
	if g.attach != nil {
		request = g.attach(request, *o)
	}
	if o.Verdict() == core.Abandoned {
		g.abandon(w, request, o, o.Err())
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

// abandon ends a request whose context ended with err, with a bare 503. A context also ends by a
// deadline of the server, or when it shuts down, and its error does not tell which: a client
// that still listens must not take an empty 200 for the answer. If it has left, logs and
// middleware see the status.
func (g *Gate[R]) abandon(w http.ResponseWriter, request R, o *core.Outcome, err error) {
	if g.committed != nil && g.committed(request) {
		return
	}
	o.Fail(err)
	h, field := w.Header(), http.CanonicalHeaderKey(g.options.ShadowField)
	answer.ReplaceContent(h)
	shadows := h[field]               // written already if there are any
	g.answering(o).fields.Write(h, o) // Retry-After alone, as on every 503
	if len(shadows) > 0 {
		h[field] = shadows
	}
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

// Preflights returns how many requests that look like CORS preflights have passed without
// a decision, because of SkipPreflight.
func (g *Gate[R]) Preflights() int64 { return g.preflights.Load() }

// Queue returns how many requests wait for their turn in a leaky queue, how many were
// answered with 503 because no more could wait, and how many ended while they waited:
// their clients left, or their deadline passed. Observe has seen all of them allowed.
func (g *Gate[R]) Queue() (waiting int, full, left int64) {
	return int(g.room.waiting.Load()), g.room.full.Load(), g.room.left.Load()
}
