package middleware_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-go/weir/benchmarks/middleware"
	"github.com/weir-go/weir/benchmarks/store"
)

func TestEveryMiddlewareLimitsByClientAddress(t *testing.T) {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, c := range middleware.Contestants() {
		if c.Kind == middleware.Bare || c.Kind == middleware.Floor {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			h := c.Wrap(store.Scarce, next)
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
					sends != (c.Kind != middleware.WithoutHeaders) {
					t.Errorf("%s: got header fields %v, which is not what it is compared as", step.client, w.Header())
				}
			}
		})
	}
}
