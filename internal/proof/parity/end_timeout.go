package parity

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/weir-go/weir/core"
)

// Requests whose time is up. The race detector looks at these rows, too.

// testLateAnswer tests handlers that answer after the time-out. The end sees the status that the
// handler sent, or that the client saw, and the client has not left.
func testLateAnswer[R any](place Place) func(*testing.T, Adapter[R]) {
	return func(t *testing.T, a Adapter[R]) {
		for _, status := range []int{http.StatusOK, http.StatusUnauthorized} {
			synctest.Test(t, func(t *testing.T) {
				limit, ends := ending[R]()
				app := a.Serve(t, App[R]{Site: limit, TimeOut: place, Extra: map[string]http.Handler{
					"/extra": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						<-r.Context().Done()
						w.WriteHeader(status)
						io.WriteString(w, "late")
					}),
				}})
				w := httptest.NewRecorder()
				app.ServeHTTP(w, httptest.NewRequest("GET", "/extra", nil))
				synctest.Wait()
				got := next(t, ends.results)
				if got.Left || got.Panicked || got.Status != status && got.Status != w.Code {
					t.Errorf("ended with %+v: the handler answered %d, the client has %d", got, status, w.Code)
				}
				next(t, ends.settlements)
				next(t, ends.settlements)
				ends.wantNoEnd(t)
			})
		}
	}
}

// testTimeOutInQueue tests a request whose time is up before its turn: it was never admitted.
func testTimeOutInQueue[R any](t *testing.T, a Adapter[R]) {
	synctest.Test(t, func(t *testing.T) {
		limit, ends := queueing[R]()
		app := a.Serve(t, App[R]{Site: limit, TimeOut: Outside})
		get := func() int {
			w := httptest.NewRecorder()
			app.ServeHTTP(w, httptest.NewRequest("GET", "/hello", nil))
			synctest.Wait()
			return w.Code
		}
		if code := get(); code != http.StatusOK {
			t.Errorf("the first request: %d", code)
		}
		ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 5})
		if code := get(); code == http.StatusOK {
			t.Errorf("the second request: %d", code)
		}
		ends.wantEnd(t, core.Result{Status: http.StatusServiceUnavailable, Left: true})
	})
}
