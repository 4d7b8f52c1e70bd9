package nethttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// A handler outside may call the limited one again with the header of the denial.
func TestADeniedRequestThatIsTriedAgainIsDecidedAgain(t *testing.T) {
	served := 0
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "one", Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: func(*http.Request) (string, error) { return "", nil },
	}}})
	h := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	for range 3 {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests {
			h.ServeHTTP(w, r)
		}
	}
	if served != 1 {
		t.Errorf("%d requests were served, of a limit of 1", served)
	}
}
