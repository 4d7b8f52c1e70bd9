package framework_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/benchmarks/framework"
	"github.com/weir-go/weir/benchmarks/store"
)

func TestEveryLimiterLimitsByClientAddress(t *testing.T) {
	for _, c := range framework.Contestants() {
		if c.Kind == framework.Bare {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			h := c.Serve(store.Scarce)
			for _, step := range []struct {
				client string
				want   int
			}{
				{"203.0.113.7:50001", http.StatusNoContent},
				{"203.0.113.7:50002", http.StatusTooManyRequests},
				{"203.0.113.8:50001", http.StatusNoContent},
			} {
				r := httptest.NewRequest(http.MethodGet, "/v1/items", nil)
				r.RemoteAddr = step.client
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if w.Code != step.want {
					t.Errorf("%s: got %d, want %d", step.client, w.Code, step.want)
				}
				if sends := len(w.Header()) > 0; step.want == http.StatusNoContent &&
					sends != (c.Kind != framework.WithoutHeaders) {
					t.Errorf("%s: got header fields %v, which is not what it is compared as", step.client, w.Header())
				}
			}
		})
	}
}
