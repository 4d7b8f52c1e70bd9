package shed

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/watch"
)

// Gate sheds the requests of a framework that is built on net/http. R is the framework's
// request type. Adapters are built on a Gate, so that all of them decide and answer alike.
// With net/http, or with a framework that has an adapter, use [Handler] or the adapter
// instead. Its fields must not change while it is used. It is safe for concurrent use.
type Gate[R any] struct {
	// Shedder decides. Required.
	Shedder *Shedder[R]

	// Route names the route of a request that has ended, where Options.Route is nil. nil:
	// all requests are of one route.
	Route func(R) string

	// Committed reports whether the response has begun, so that it is too late for an
	// answer. A request that is shed then ends without one. nil: the response counts as
	// not begun.
	Committed func(R) bool

	// Answered says what the framework knows of the answer when next has returned err, or
	// has panicked, which is nil: see Config of internal/http/gate. nil: Serve looks at what is
	// written, and an error is a failure.
	Answered func(request R, err error) (status int, bytes int64, written bool)

	// WithRequest returns request with r, a copy of its *http.Request with another body. It is called for requests
	// with content only. The time that a handler waits for that content is the client's. nil: where R is
	// no *http.Request, that time is the service's.
	WithRequest func(request R, r *http.Request) R

	// Answer returns the writer for the answer to a request that is shed, where that is not
	// the writer that Serve gets: a response of the framework around it, which notes that
	// it is committed. nil: the writer that Serve gets.
	Answer func(R) http.ResponseWriter
}

// NewGate returns a gate as g is. It panics if the shedder is nil or was not made by [New].
func NewGate[R any](g Gate[R]) *Gate[R] {
	if g.Shedder == nil || g.Shedder.settings.Load() == nil {
		panic("shed: the shedder is nil or zero: make one with New")
	}
	if same, ok := any(func(_, r *http.Request) *http.Request { return r }).(func(R, *http.Request) R); ok && g.WithRequest == nil {
		g.WithRequest = same
	}
	return &g
}

// Serve decides request. If it may go on, Serve calls next and returns its error. next gets
// a writer around w, which it must use: the first Flush and a Hijack take the request out
// of flight. Make next once, not for every request.
//
// If the request is shed, or its context ends in the queue, Serve answers it, unless another
// answer has begun, and returns the error of Options.Denied. The request ends when next does, whether it returns or
// panics.
func (g *Gate[R]) Serve(w http.ResponseWriter, r *http.Request, request R, next func(http.ResponseWriter, R) error) (err error) {
	p, event := g.Shedder.Acquire(r.Context(), request)
	switch {
	case event.Verdict != Admitted:
		// Left too: a context also ends by a deadline of the server, or when it shuts down. A
		// client that still listens must not take an empty 200 for the answer.
		return g.deny(w, r, request, event)
	case p == nil:
		return next(w, request)
	}
	returned := false
	var writer *watch.Writer
	defer func() {
		g.end(r.Context(), p, request, func() (status int, failed bool) {
			if !returned || writer == nil {
				return 0, true
			}
			return g.status(request, writer, err)
		})
	}()
	if !event.Exempt && !event.Shadow {
		w, writer = watch.Around(w, (*listener)(p))
		if g.WithRequest != nil && r.Body != nil && r.Body != http.NoBody {
			// A copy: net/http looks at the body of its own request, while the handler runs and after it, to
			// decide whether the connection can serve another one.
			inner := r.WithContext(r.Context())
			inner.Body = watch.Body(r.Body, (*listener)(p))
			request = g.WithRequest(request, inner)
			defer func() {
				r.Pattern = inner.Pattern
				r.MultipartForm = cmp.Or(r.MultipartForm, inner.MultipartForm) // net/http removes its files
			}()
		}
	}
	err = next(w, request)
	returned = true
	return err
}

// ServeCall is Serve for a remote procedure call: of the fields of g it uses Shedder, Route and Answered.
// next gets the listener of the call; nil: the shedder ignores it. If the call may not go on, ServeCall
// returns the header fields of the denial, those that Options.Denied writes included, and its error.
func (g *Gate[R]) ServeCall(
	ctx context.Context, request R, next func(watch.Listener) error,
) (denial http.Header, err error) {
	p, event := g.Shedder.Acquire(ctx, request)
	switch {
	case event.Verdict != Admitted:
		denial = make(http.Header)
		if denied := g.prepare(denial); denied != nil {
			err = denied(fieldsOnly(denial), request, event)
		}
		return denial, err
	case p == nil:
		return nil, next(nil)
	}
	returned := false
	defer func() {
		g.end(ctx, p, request, func() (status int, failed bool) {
			if !returned {
				return 0, true
			}
			return g.status(request, nil, err)
		})
	}()
	var l watch.Listener
	if !event.Exempt && !event.Shadow {
		l = (*listener)(p)
	}
	err = next(l)
	returned = true
	return nil, err
}

// fieldsOnly is the writer of an answer of which the header matters alone.
type fieldsOnly http.Header

func (f fieldsOnly) Header() http.Header         { return http.Header(f) }
func (f fieldsOnly) Write(b []byte) (int, error) { return len(b), nil }
func (f fieldsOnly) WriteHeader(int)             {}

// end ends a request, even if its context, Answered or Route panics.
func (g *Gate[R]) end(ctx context.Context, p *Permit, request R, answer func() (status int, failed bool)) {
	result := Result{Failed: true}
	defer func() { p.End(result) }()
	result.Left = ctx.Err() != nil
	status, failed := answer()
	result.Failed, result.Refused = failed, status == http.StatusServiceUnavailable
	result.Route = g.route(request)
}

// status returns the status of the answer to request, and whether that is no success.
func (g *Gate[R]) status(request R, writer *watch.Writer, err error) (status int, failed bool) {
	if g.Answered != nil {
		status, _, _ = g.Answered(request, err)
		return status, status >= http.StatusBadRequest || status == 0 && err != nil
	}
	if writer == nil { // of a call
		return 0, err != nil
	}
	status, _ = writer.Answer(err)
	return status, status >= http.StatusBadRequest || status == 0
}

func (g *Gate[R]) route(request R) string {
	if route := g.Shedder.settings.Load().route; route != nil {
		return route(request)
	}
	if g.Route != nil {
		return g.Route(request)
	}
	return ""
}

// deny answers a request that is shed.
func (g *Gate[R]) deny(w http.ResponseWriter, r *http.Request, request R, event Event) error {
	if g.Committed != nil && g.Committed(request) {
		return nil
	}
	if g.Answer != nil {
		w = g.Answer(request)
	}
	if denied := g.prepare(w.Header()); denied != nil {
		return denied(w, request, event)
	}
	answer.AtCapacity(w, r)
	return nil
}

// prepare makes h the header of a denial, and returns Options.Denied.
func (g *Gate[R]) prepare(h http.Header) func(http.ResponseWriter, R, Event) error {
	headers.Delete(h) // of an outer limiter: the client's quotas are not the reason
	answer.ReplaceContent(h)
	h["Retry-After"] = []string{retries[rand.IntN(len(retries))]}
	return g.Shedder.settings.Load().denied
}

// retries are the values of Retry-After. One is drawn, so that clients do not come back at once.
var retries = [...]string{"1", "2", "3", "4"}
