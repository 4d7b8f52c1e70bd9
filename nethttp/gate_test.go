package nethttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/http/watch"
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

// A shedder outside must not take a denial, whose status is 200, for a fast success.
func TestADenialOfGRPCIsKnownAsOneOutside(t *testing.T) {
	limiter := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerMinute(1)))).Handler(&hello{})
	for _, want := range []bool{false, true} {
		r := httptest.NewRequest("POST", "/a.B/C", nil)
		r.ProtoMajor = 2
		r.Header.Set("Content-Type", "application/grpc")
		w, outside := watch.Around(httptest.NewRecorder(), nil)
		limiter.ServeHTTP(w, r)
		status, _ := outside.Answer(nil)
		if own := watch.IsOwn(outside.Own(), status); status != http.StatusOK || own != want {
			t.Errorf("status %d, by the limiter: %t", status, own)
		}
	}
}
