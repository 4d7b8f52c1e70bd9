package parity

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/limits"
)

// Requests that end without an answer of the handler.

// testPanic checks that the limiter decides before the handler panics, so that such requests are
// not free.
func testPanic[R any](where Place) func(*testing.T, Adapter[R]) {
	return func(t *testing.T, a Adapter[R]) {
		server := httptest.NewServer(a.Serve(t, App[R]{
			Site: everybody[R](limits.FixedWindow(limits.PerDay(1))),
			Extra: map[string]http.Handler{
				"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })},
			Recover: where,
		}))
		defer server.Close()
		first := get(t, server, "/extra")
		wantStatus(t, first, http.StatusInternalServerError)
		if first.Header.Get("RateLimit") != `"everybody";r=0;t=86400` {
			t.Errorf("fields %v", first.Header)
		}
		wantStatus(t, get(t, server, "/extra"), http.StatusTooManyRequests)
	}
}

func testAbort[R any](t *testing.T, a Adapter[R]) {
	server := serve(t, a, everybody[R](limits.FixedWindow(limits.PerDay(9))),
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if response, err := server.Client().Get(server.URL + "/extra"); err == nil {
		response.Body.Close()
		t.Errorf("answered %s, want no answer", response.Status)
	}
}

func testLeft[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](limits.FixedWindow(limits.PerDay(1)))
	handler := a.Serve(t, App[R]{Site: limit})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/hello", nil))
	// a server that shuts down ends contexts too
	wantStatus(t, w.Result(), http.StatusServiceUnavailable)
	if w.Header().Get("Retry-After") != "1" || w.Header().Get("RateLimit") != "" || w.Body.Len() != 0 {
		t.Errorf("fields %v, content %q: want Retry-After alone", w.Header(), w.Body)
	}
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/hello", nil))
	wantStatus(t, w.Result(), http.StatusOK)
}
