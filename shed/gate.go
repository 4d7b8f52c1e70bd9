package shed

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

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
		g.end(r.Context(), p, request, func() reply {
			if !returned || writer == nil {
				return reply{failed: true}
			}
			return g.answered(request, writer, err)
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
	ctx context.Context, request R, next func(context.Context, watch.Listener) error,
) (denial http.Header, err error) {
	p, event := g.shedder.Acquire(ctx, request)
	switch {
	case event.Verdict != Admitted:
		denial = make(http.Header)
		if denied := g.prepare(denial, event); denied != nil {
			err = denied(fieldsOnly(denial), request, event)
		}
		return denial, err
	case p == nil:
		return nil, next(ctx, nil)
	}
	returned := false
	var call *watch.Call // nil: no count depends on who answered
	defer func() {
		g.end(ctx, p, request, func() (a reply) {
			if !returned {
				return reply{failed: true}
			}
			a = g.answered(request, nil, err)
			a.own = call != nil && call.Own()
			return a
		})
	}()
	inner := ctx
	if p.need != nil {
		call = &watch.Call{Context: ctx}
		inner = call
	}
	var l watch.Listener
	if !event.Exempt && !event.Shadow {
		l = (*listener)(p)
	}
	err = next(inner, l)
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
	ctx context.Context, p *Permit, request R, answer func() reply,
) {
	result := Result{Failed: true}
	defer func() { p.End(result) }()
	result.Left = ctx.Err() != nil
	a := answer()
	result.Failed, result.own = a.failed, a.own
	result.Refused = a.status == http.StatusServiceUnavailable && !a.own
	result.Route = g.route(request)
}

// endsWhenSent reports whether request ends when its answer has been sent, and arranges that.
func (g *gate[R]) endsWhenSent(ctx context.Context, p *Permit, request R, err error) bool {
	// After a time-out outside, another answer may be sent, and nothing says when.
	if g.Sending == nil || ctx.Err() != nil || !g.Sending.Pending(request, err, true) {
		return false
	}
	marked := 0
	if g.Own != nil {
		marked = g.Own(request)
	}
	if err == nil {
		p.Stream()
	}
	result := Result{Route: strings.Clone(g.route(request))}
	g.Sending.OnSent(request, func(status int, _ int64) {
		result.Failed = status >= http.StatusBadRequest || status == 0
		result.own = watch.IsOwn(marked, status)
		result.Refused = status == http.StatusServiceUnavailable && !result.own
		p.End(result)
	})
	return true
}

// reply says how a request was answered.
type reply struct {
	status int
	failed bool
	own    bool // by a limiter of weir, not by the handler
}

// answered returns how request was answered.
func (g *gate[R]) answered(request R, writer *watch.Writer, err error) (a reply) {
	switch {
	case g.Answered != nil:
		a.status, _, _ = g.Answered(request, err)
		a.failed = a.status >= http.StatusBadRequest || a.status == 0 && err != nil
	case writer == nil: // of a call
		a.failed = err != nil
	default:
		a.status, _ = writer.Answer(err)
		a.failed = a.status >= http.StatusBadRequest || a.status == 0
	}
	a.own = writer != nil && watch.IsOwn(writer.Own(), a.status) ||
		g.Own != nil && watch.IsOwn(g.Own(request), a.status)
	a.failed = a.failed || a.own // a denial of gRPC has the status 200
	return a
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
	var err error
	if denied := g.prepare(w.Header(), event); denied != nil {
		err = denied(w, request, event)
	} else {
		answer.AtCapacity(w, r)
	}
	if event.Verdict == Shed {
		answer.Drain(w, r, g.shedder.settings.Load().drainLimit) // after Denied, which may read it
	}
	return err
}

// prepare makes h the header of a denial, and returns Options.Denied.
func (g *gate[R]) prepare(h http.Header, event Event) func(http.ResponseWriter, R, Event) error {
	headers.Delete(h) // of an outer limiter: the quotas of the client are not the reason
	answer.ReplaceContent(h)
	most := max(leastSpread, event.Spread) // a request that left has none
	h["Retry-After"] = []string{strconv.FormatInt(1+rand.Int64N(int64(most/time.Second)), 10)}
	return g.shedder.settings.Load().denied
}
