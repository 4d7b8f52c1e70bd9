package nethttp

import (
	"context"
	"errors"
	"net/http"
)

// answerAbandoned answers a request whose context ended with err. A client that has
// left gets nothing. If the server's own deadline ended the request, the client still
// listens and must not take an empty 200 for the answer, so it gets a 503.
func answerAbandoned(w http.ResponseWriter, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		replaceContent(w.Header())
		w.Header()["Retry-After"] = []string{"1"}
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// replaceContent prepares h for an answer that replaces the handler's. No cache may
// store it (RFC 6585, section 4).
func replaceContent(h http.Header) {
	for _, name := range contentFields {
		delete(h, name)
	}
	h["Cache-Control"] = []string{"no-store"}
}

// contentFields are fields that an outer handler may have set for the answer that a
// denial replaces. gin sets Allow before any handler runs.
var contentFields = [...]string{"Allow", "Content-Encoding", "Content-Length", "Etag", "Expires", "Last-Modified"}
