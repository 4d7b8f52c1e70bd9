package nethttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// A handler that serves the requests of a batch by the limited handlers must not make them free.
func TestTheRequestsOfABatchCountEach(t *testing.T) {
	limit := nethttp.MustNew(perClient(limits.Concurrent(3)))
	var handler http.Handler
	mux := http.NewServeMux()
	mux.Handle("/", &hello{})
	mux.HandleFunc("/batch", func(w http.ResponseWriter, r *http.Request) {
		for range 2 {
			sub := httptest.NewRequestWithContext(r.Context(), "GET", "/", nil)
			sub.RemoteAddr = r.RemoteAddr
			wantStatus(t, serve(handler, sub), 200)
		}
		if held := limit.State().Held; held != 1 {
			t.Errorf("%d held after the batch", held)
		}
		sub := httptest.NewRequestWithContext(r.Context(), "GET", "/held", nil)
		sub.RemoteAddr = r.RemoteAddr
		serve(handler, sub)
	})
	mux.HandleFunc("/held", func(http.ResponseWriter, *http.Request) {
		if held := limit.State().Held; held != 2 {
			t.Errorf("%d held in the batch, want 2", held)
		}
	})
	handler = limit.Handler(mux)
	wantStatus(t, serve(handler, httptest.NewRequest("GET", "/batch", nil)), 200)
}

func serve(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}
