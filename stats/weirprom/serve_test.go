package weirprom_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/stats"
)

// The handler of docs/operations.md serves the counters.
func TestMetricsAreServed(t *testing.T) {
	counters := stats.New(stats.Options{})
	counters.Limiter("api")
	recorder := httptest.NewRecorder()
	metrics(counters).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	if text, _ := io.ReadAll(recorder.Body); recorder.Code != 200 || !strings.Contains(string(text), `limiter="api"`) {
		t.Errorf("%d %s", recorder.Code, text)
	}
}
