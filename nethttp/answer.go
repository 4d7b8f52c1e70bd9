package nethttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
)

// answerer turns outcomes into answers. It knows nothing of rules and requests'
// types, so that every adapter can answer by it.
type answerer struct {
	fields *headers.Writer
	denied func(http.ResponseWriter, *http.Request, core.Outcome)
}

// answer sets the header fields of o and reports whether the request may go on,
// after waiting for its turn if it has to. Otherwise it has answered, except
// where nobody listens any more.
func (a *answerer) answer(w http.ResponseWriter, r *http.Request, o *core.Outcome) bool {
	if o.Verdict() == core.Abandoned {
		abandon(w, o.Err())
		return false
	}
	a.fields.Write(w.Header(), o)
	if !o.Allowed() {
		a.deny(w, r, o)
		return false
	}
	if delay := o.Delay(); delay > 0 {
		return awaitTurn(w, r.Context(), delay)
	}
	return true
}

// awaitTurn waits for delay and reports whether the request may go on. If its
// context ends first its slot stays spent: those behind it were told when they
// may start, so another request could only start beside one of them.
func awaitTurn(w http.ResponseWriter, ctx context.Context, delay time.Duration) bool {
	turn := time.NewTimer(delay)
	defer turn.Stop()
	select {
	case <-turn.C:
		return true
	case <-ctx.Done():
		abandon(w, ctx.Err())
		return false
	}
}

// abandon ends a request whose context ended with err. A client that left gets
// nothing. When it was the server that ran out of time the client still listens,
// and must not take an empty 200 for an answer.
func abandon(w http.ResponseWriter, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		replaceContent(w.Header())
		w.Header()["Retry-After"] = []string{"1"}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// deny answers a request that was not allowed.
func (a *answerer) deny(w http.ResponseWriter, r *http.Request, o *core.Outcome) {
	replaceContent(w.Header())
	if a.denied != nil {
		a.denied(w, r, *o)
		return
	}
	if prefersText(r.Header["Accept"]) {
		writeText(w, r, o)
	} else {
		writeProblem(w, r, o)
	}
}

// replaceContent prepares h for an answer in place of the handler's, which no
// cache may keep (RFC 6585, section 4).
func replaceContent(h http.Header) {
	for _, name := range ofTheContent {
		delete(h, name)
	}
	h["Cache-Control"] = []string{"no-store"}
}

// ofTheContent are fields that an outer handler may have set for the content
// that a denial replaces.
var ofTheContent = [...]string{"Content-Encoding", "Content-Length", "Etag", "Expires", "Last-Modified"}
