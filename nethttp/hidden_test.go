package nethttp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestNoBodyNamesAHiddenRule(t *testing.T) {
	all := keyfuncs.Constant[*http.Request]("all")
	limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		{Name: "secret", Limit: limits.FixedWindow(limits.PerDay(1)), Key: all, Hidden: true},
		{Name: "public", Limit: limits.FixedWindow(limits.PerDay(1)), Key: all},
	}})
	for range 2 {
		w := httptest.NewRecorder()
		limit.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code == http.StatusTooManyRequests &&
			!strings.Contains(w.Body.String(), `"violated-policies":["public"]`) ||
			strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	}
}
