package parity

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/limits"
)

// testOthersAnswer tests handlers that answer with the header of another answer, as caches and
// proxies do. Outside a writer for the status, the first such answer tells the limiter.
func testOthersAnswer[R any](t *testing.T, a Adapter[R]) {
	for name, handler := range map[string]func(http.ResponseWriter){
		"a cache": cached(false), "a cache that adds": cached(true),
		"a proxy after hints": func(w http.ResponseWriter) {
			if !a.lacks(Informational) {
				w.WriteHeader(http.StatusEarlyHints)
			}
			clear(w.Header())
			w.WriteHeader(http.StatusOK)
		},
		"a proxy of a limited service": func(w http.ResponseWriter) {
			w.Header().Add("RateLimit", `"theirs";r=1;t=1`)
			w.Write([]byte("hi"))
		},
		"a handler that writes nothing": func(w http.ResponseWriter) { clear(w.Header()) },
	} {
		t.Run(name, func(t *testing.T) {
			app := a.Serve(t, App[R]{
				Site:  everybody[R](limits.FixedWindow(limits.PerDay(9))),
				Route: everybody[R](limits.FixedWindow(limits.PerDay(9))),
				Extra: map[string]http.Handler{"/extra": http.HandlerFunc(
					func(w http.ResponseWriter, _ *http.Request) { handler(w) })},
			})
			for i, want := range []string{"r=8", "r=7", "r=6", "r=5", "r=4"} {
				w := httptest.NewRecorder()
				app.ServeHTTP(w, httptest.NewRequest("GET", "/extra", nil))
				lines := w.Result().Header.Values("RateLimit")
				if i < 3 { // a cache misses, hits, and each of the two limiters learns
					continue
				}
				if len(lines) != 1 || strings.Count(lines[0], want) != 2 {
					t.Errorf("request %d: %q, want one line with twice %s", i, lines, want)
				}
			}
		})
	}
}

// cached returns a handler that answers every request with the header of its first answer.
func cached(adds bool) func(http.ResponseWriter) {
	var stored http.Header
	return func(w http.ResponseWriter) {
		if h := w.Header(); stored == nil {
			stored = h.Clone()
		} else if adds {
			for name, lines := range stored {
				h[name] = append(lines[:len(lines):len(lines)], h[name]...)
			}
		} else {
			clear(h)
			maps.Copy(h, stored.Clone())
		}
		w.Write([]byte("hi"))
	}
}
