package parity

import (
	"net/http"
	"testing"
)

// testResetKey resets the key of a client that was denied.
func testResetKey[R any](t *testing.T, a Adapter[R]) {
	limit, made := changing(daily[R]("a", 1))
	app := a.Serve(t, App[R]{Site: limit})
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusOK} {
		if i == 2 {
			must(t, (*made).ResetKey(t.Context(), "a", "everybody"))
		}
		if got := send(t, app, "/hello"); got.status != want {
			t.Errorf("request %d: %d, want %d", i, got.status, want)
		}
	}
	if err := (*made).ResetKey(t.Context(), "none", "everybody"); err == nil {
		t.Error("a key of a rule is reset that there is not")
	}
}
