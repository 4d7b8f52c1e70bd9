package nethttp_test

import (
	"net/http"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestDeniedFindsTheOutcomeToo(t *testing.T) {
	config := perClient(limits.FixedWindow(limits.PerMinute(1)))
	config.OutcomeInContext = true
	config.Denied = func(w http.ResponseWriter, r *http.Request, _ core.Outcome) {
		w.WriteHeader(http.StatusTooManyRequests)
		if o, ok := nethttp.OutcomeFrom(r.Context()); !ok || o.Verdict() != core.Denied {
			t.Errorf("outcome %v, %v", ok, o.Verdict())
		}
	}
	handler := nethttp.MustNew(config).Handler(&hello{})
	wantStatus(t, get(handler), 200)
	wantStatus(t, get(handler), 429)
}
