package gate

import (
	"context"
	"errors"
	"net/http"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/watch"
)

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
		err = g.proceed(w, request, o, next)
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
