package nethttp_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Fifteen requests at once, at 3 a second with a burst of 3: three in each second.
func TestThoseWhoWaitTogetherAreToldATurnEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := perClient(limits.TokenBucket(limits.PerSecond(3), 3))
		config.Headers = headers.Options{MaxPromise: 4 * time.Second}
		handler := nethttp.MustNew(config).Handler(nothing)
		told := make(map[string]int)
		for range 15 {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
			h := w.Result().Header
			told[h.Get("Retry-After")]++
			if retry := h.Get("Retry-After"); retry != "" &&
				(!strings.HasSuffix(h.Get("RateLimit"), ";t="+retry) ||
					!strings.Contains(w.Body.String(), `"retry_after":`+retry)) {
				t.Errorf("Retry-After: %s, RateLimit: %s, body %s", retry, h.Get("RateLimit"), w.Body)
			}
		}
		if got, want := fmt.Sprint(told), "map[:3 1:3 2:3 3:3 4:3]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
