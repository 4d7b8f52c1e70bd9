package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestNamesOfFieldsThatCannotBeAreReportedTogether(t *testing.T) {
	for _, row := range []struct {
		limit, remaining, reset string
		want                    []string
	}{
		{"", "", "", nil},
		{"X-Limit", "X-Left", "X-Reset", nil},
		{"x!#$%&'*+-.^_`|~9", "", "", nil},
		{"RateLimit-Remaining", "RateLimit-Limit", "", nil},
		{"X Limit", "X:Left", "X-Rés", []string{`"limit": must be letters`, `"remaining": must be`, `"reset": must be`}},
		{"\x00", "\r\n", "a\tb", []string{`"limit"`, `"remaining"`, `"reset"`}},
		{strings.Repeat("x", 65), "", "", []string{"at most 64 bytes (got 65)"}},
		{"Content-Length", "TRANSFER-ENCODING", "connection",
			[]string{`"Content-Length" has another`, `"TRANSFER-ENCODING"`, `"connection"`}},
		{"Retry-After", "Grpc-Status", "Set-Cookie", []string{`"Retry-After"`, `"Grpc-Status"`, `"Set-Cookie"`}},
		{"RateLimit", "RateLimit-Policy", "X-Envoy-Ratelimited",
			[]string{`"RateLimit"`, `"RateLimit-Policy"`, `"X-Envoy-Ratelimited"`}},
		{"X-A", "x-a", "X-A", []string{`"remaining": "x-a" is the name of another`, `"reset": "X-A" is the name`}},
		{"", "ratelimit-limit", "", []string{`"remaining": "ratelimit-limit" is the name of another`}},
	} {
		_, err := gateway.NewNames(row.limit, row.remaining, row.reset)
		if (err == nil) != (row.want == nil) {
			t.Errorf("%q, %q, %q: %v", row.limit, row.remaining, row.reset, err)
			continue
		}
		if err == nil {
			continue
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != len(row.want) {
			t.Errorf("%d mistakes, want %d: %v", n, len(row.want), err)
		}
		for _, text := range row.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("no %s: %v", text, err)
			}
		}
	}
}

func TestAnswersHaveFieldsUnderNamesOfOnesOwn(t *testing.T) {
	names := gateway.MustNewNames("X-Quota", "x-quota-left", "RateLimit-Limit") // one is a name of the draft
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer)},
		},
		Headers: headers.Options{Formats: []headers.Format{headers.Draft6}, Custom: names.Rename},
	})
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, status := range []int{200, 429} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		h := w.Result().Header
		if w.Code != status || h.Get("X-Quota") != "1" || h.Get("X-Quota-Left") != "0" ||
			len(h["Ratelimit-Limit"]) != 1 || h.Get("RateLimit-Limit") == "1" {
			t.Errorf("%d: %v", w.Code, h)
		}
		for _, old := range []string{"Ratelimit", "Ratelimit-Policy", "Ratelimit-Remaining", "Ratelimit-Reset"} {
			if h[old] != nil {
				t.Errorf("%d has %s: %v", w.Code, old, h)
			}
		}
		if wait := h.Get("Retry-After"); status == 429 && wait != h.Get("RateLimit-Limit") {
			t.Errorf("Retry-After %q: %v", wait, h)
		}
	}
}
