package gate

import (
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
		result := core.Result{Panicked: !returned, Left: r.Context().Err() != nil}
		if admitted && returned && g.endsWhenSent(request, err, o, result.Left) {
			return
		}
		defer func() { o.End(result) }() // even if the framework's writer panics
		switch {
		case !admitted:
			if returned && !o.Allowed() {
				result.Status = o.Status()
			}
		case g.answered != nil:
			status, bytes, written := g.answered(request, err)
			if result.Status = answeredWith(status, written, &result); written || returned {
				result.Bytes = bytes
			}
		case writer != nil:
			status, written := writer.Answer(err)
			result.Status, result.Bytes = answeredWith(status, written, &result), writer.Bytes()
		}
	}()
	if g.withContext != nil {
		request = g.withContext(request, withEnd(r.Context(), o))
	}
	if request, admitted, err = g.admit(w, r, request, o); admitted {
		if g.answered == nil && g.answering(o).watches {
			w, writer = watch.Around(w, nil)
		}
		err = next(g.withoutRedirects(w, request), request)
		keepPattern(r, request)
	}
	returned = true
	return err
}

// endsWhenSent reports whether the request ends when its answer has been sent, and arranges that.
func (g *Gate[R]) endsWhenSent(request R, err error, o *core.Outcome, left bool) bool {
	if g.sending == nil || !g.sending.Pending(request, err, g.answering(o).watches) {
		return false
	}
	if end, ok := o.Detach(); ok {
		g.sending.OnSent(request, func(status int, bytes int64) {
			end(core.Result{Status: status, Bytes: bytes, Left: left})
		})
	}
	return true
}

// answeredWith returns the status of an answer, or 0 if it is not known.
func answeredWith(status int, written bool, result *core.Result) int {
	switch {
	case !written && (result.Panicked || result.Left):
		return 0 // an outer handler may still answer
	case watch.IsInformational(status):
		return http.StatusOK // net/http sends it after the informational answers
	}
	return status
}
