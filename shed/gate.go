package shed

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/internal/http/answer"
	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/internal/http/watch"
)

// gate implements [shedgate.Gate].
type gate[R any] struct {
	shedder *Shedder[R]
	shedgate.Config[R]
}

// newGate returns the gate of s. It panics if s is nil or was not made by [New].
func newGate[R any](s *Shedder[R], config shedgate.Config[R]) *gate[R] {
	if s == nil || s.settings.Load() == nil {
		panic("shed: the shedder is nil or zero: make one with New")
	}
	same, ok := any(func(_, r *http.Request) *http.Request { return r }).(func(R, *http.Request) R)
	if ok && config.WithRequest == nil {
		config.WithRequest = same
	}
	return &gate[R]{s, config}
}

// Serve implements [shedgate.Gate].
func (g *gate[R]) Serve(
	w http.ResponseWriter, r *http.Request, request R, next func(http.ResponseWriter, R) error,
) (err error) {
	p, event := g.shedder.Acquire(r.Context(), request)
	switch {
	case event.Verdict != Admitted:
		// Left, too: a context also ends by a deadline of the server, or as the server shuts down.
		// Its client still listens, and must not get an empty 200.
		return g.deny(w, r, request, event)
	case p == nil:
		return next(w, request)
	}
	returned := false
	var writer *watch.Writer
	defer func() {
		if returned && g.endsWhenSent(r.Context(), p, request, err) {
			return
		}
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
			// A copy: net/http looks at the body of its own request to decide whether the
			// connection can serve another one.
			inner := r.WithContext(r.Context())
			inner.Body = watch.Body(r.Body, (*listener)(p))
			request = g.WithRequest(request, inner)
			defer func() {
				r.Pattern = inner.Pattern
				// net/http removes the files of its own request.
				r.MultipartForm = cmp.Or(r.MultipartForm, inner.MultipartForm)
			}()
		}
	}
	err = next(w, request)
	returned = true
	return err
}

// ServeCall implements [shedgate.Gate].
func (g *gate[R]) ServeCall(
	ctx context.Context, request R, next func(watch.Listener) error,
) (denial http.Header, err error) {
	p, event := g.shedder.Acquire(ctx, request)
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

// fieldsOnly is a writer that keeps the header and drops the rest.
type fieldsOnly http.Header

func (f fieldsOnly) Header() http.Header         { return http.Header(f) }
func (f fieldsOnly) Write(b []byte) (int, error) { return len(b), nil }
func (f fieldsOnly) WriteHeader(int)             {}

// end ends a request, even if its context, Answered or Route panics.
func (g *gate[R]) end(
	ctx context.Context, p *Permit, request R, answer func() (status int, failed bool),
) {
	result := Result{Failed: true}
	defer func() { p.End(result) }()
	result.Left = ctx.Err() != nil
	status, failed := answer()
	result.Failed, result.Refused = failed, status == http.StatusServiceUnavailable
	result.Route = g.route(request)
}

// endsWhenSent reports whether request ends when its answer has been sent, and arranges that.
func (g *gate[R]) endsWhenSent(ctx context.Context, p *Permit, request R, err error) bool {
	if g.Sending == nil || !g.Sending.Pending(request, err, true) {
		return false
	}
	if err == nil {
		p.Stream()
	}
	result := Result{Left: ctx.Err() != nil, Route: strings.Clone(g.route(request))}
	g.Sending.OnSent(request, func(status int, _ int64) {
		result.Failed = status >= http.StatusBadRequest || status == 0
		result.Refused = status == http.StatusServiceUnavailable
		p.End(result)
	})
	return true
}

// status returns the status of the answer to request, and whether the request failed.
func (g *gate[R]) status(request R, writer *watch.Writer, err error) (status int, failed bool) {
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

func (g *gate[R]) route(request R) string {
	if route := g.shedder.settings.Load().route; route != nil {
		return route(request)
	}
	if g.Route != nil {
		return g.Route(request)
	}
	return ""
}

// deny answers a request that is shed.
func (g *gate[R]) deny(w http.ResponseWriter, r *http.Request, request R, event Event) error {
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
func (g *gate[R]) prepare(h http.Header) func(http.ResponseWriter, R, Event) error {
	headers.Delete(h) // of an outer limiter: the quotas of the client are not the reason
	answer.ReplaceContent(h)
	h["Retry-After"] = []string{retries[rand.IntN(len(retries))]}
	return g.shedder.settings.Load().denied
}

// retries are the values of Retry-After. One is drawn, so that clients come back apart.
var retries = [...]string{"1", "2", "3", "4"}
