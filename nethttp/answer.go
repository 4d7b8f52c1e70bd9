package nethttp

import (
	"context"
	"errors"
	"net/http"
)

// answerAbandoned answers a request whose context ended with err. A client that
// left gets nothing. When it was the server that ran out of time the client still
// listens, and must not take an empty 200 for an answer.
func answerAbandoned(w http.ResponseWriter, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		replaceContent(w.Header())
		w.Header()["Retry-After"] = []string{"1"}
		w.WriteHeader(http.StatusServiceUnavailable)
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

// ofTheContent are fields that an outer handler may have set for the answer that
// a denial replaces; gin sets Allow before any handler runs.
var ofTheContent = [...]string{"Allow", "Content-Encoding", "Content-Length", "Etag", "Expires", "Last-Modified"}
