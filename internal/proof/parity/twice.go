package parity

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

// testTwice tests one limiter that stands around the application and around a route.
func testTwice[R any](t *testing.T, a Adapter[R]) {
	for name, limit := range map[string]*Config[R]{
		"one at once":       everybody[R](limits.Concurrent(1)),
		"with a final cost": everybody[R](limits.FixedWindow(limits.PerDay(3))),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "with a final cost" {
				limit.Rules[0].FinalCost = core.SpentCost
			}
			app := a.Serve(t, App[R]{Site: limit, Route: limit, Twice: true})
			for i := range 4 {
				w := httptest.NewRecorder()
				app.ServeHTTP(w, httptest.NewRequest("GET", "/users/7", nil))
				want := http.StatusOK
				if i == 3 && name != "one at once" {
					want = http.StatusTooManyRequests
				}
				wantStatus(t, w.Result(), want)
			}
		})
	}
}

// testInnermost has a limiter of 9 around one of 5.
func testInnermost[R any](t *testing.T, a Adapter[R]) {
	site := everybody[R](limits.FixedWindow(limits.PerDay(9)))
	route := everybody[R](limits.FixedWindow(limits.PerDay(5)))
	site.OutcomeInContext, route.OutcomeInContext = true, true
	for want, app := range map[string]App[R]{
		"8 left": {Site: site}, "4 left": {Site: site, Route: route},
	} {
		site.Backend = newLedger()
		if got := send(t, a.Serve(t, app), "/left"); got.body != want {
			t.Errorf("%s, want %s", got.body, want)
		}
	}
}
