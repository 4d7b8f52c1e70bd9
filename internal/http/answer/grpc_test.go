package answer_test

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/http/answer"
)

func TestACallOfGRPCIsAPostOverHTTP2WithItsMediaType(t *testing.T) {
	for _, tt := range []struct {
		method, contentType string
		major               int
		want                bool
	}{
		{"POST", "application/grpc", 2, true},
		{"POST", "application/grpc+proto", 2, true},
		{"POST", "application/grpc;charset=utf-8", 2, true},
		{"POST", "application/grpc", 3, true},
		{"POST", "application/grpc", 1, false},
		{"GET", "application/grpc", 2, false},
		{"POST", "application/grpc-web", 2, false},
		{"POST", "application/grpc-web+proto", 2, false},
		{"POST", "application/grpcx", 2, false},
		{"POST", "application/json", 2, false},
		{"POST", "", 2, false},
	} {
		r := httptest.NewRequest(tt.method, "/a.B/C", nil)
		r.ProtoMajor = tt.major
		if tt.contentType != "" {
			r.Header.Set("Content-Type", tt.contentType)
		}
		if got := answer.IsGRPC(r); got != tt.want {
			t.Errorf("%+v: %t", tt, got)
		}
	}
}

func TestAPushbackIsNeverLongerThanTheCallMayWait(t *testing.T) {
	const none = answer.NoDeadline
	for _, tt := range []struct {
		wait, left, longest time.Duration
		want                string
	}{
		{time.Second, none, none, "1000"},
		{time.Microsecond, none, none, "1"},
		{1500*time.Microsecond + 1, none, none, "2"},
		{time.Second, time.Second + 1, none, "1000"},
		{time.Second, time.Second, none, "-1"},
		{time.Second, 0, none, "-1"},
		{time.Second, -1, none, "-1"},
		{0, none, none, "-1"},
		{-1, none, none, "-1"},
		{time.Minute, none, time.Minute, "60000"},
		{time.Minute + 1, none, time.Minute, "-1"},
		{time.Hour, 2 * time.Hour, time.Minute, "3600000"}, // the deadline alone decides
		{math.MaxInt32 * time.Millisecond, none, none, "2147483647"},
		{math.MaxInt32*time.Millisecond + 1, none, none, "-1"},
		{none, none, none, "-1"},
	} {
		if got := answer.Pushback(tt.wait, tt.left, tt.longest); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

func TestThePushbackHeedsTheTimeoutOfTheCall(t *testing.T) {
	for timeout, want := range map[string]string{
		"":           "30000",
		"1H":         "30000",
		"1M":         "30000",
		"31S":        "30000",
		"30S":        "-1",
		"30001m":     "30000",
		"29999m":     "-1",
		"30000001u":  "30000",
		"99999999n":  "-1",
		"0S":         "-1",
		"99999999H":  "30000", // more than a time.Duration has
		"999999999S": "30000", // too many digits
		"S":          "30000",
		"1":          "30000",
		"1x":         "30000",
		"-1S":        "30000",
		"+1S":        "30000",
		"１S":         "30000",
	} {
		r := httptest.NewRequest("POST", "/a.B/C", nil)
		if timeout != "" {
			r.Header.Set("Grpc-Timeout", timeout)
		}
		w := httptest.NewRecorder()
		answer.WriteGRPC(w, r, 429, []byte("Wait."), 30*time.Second, answer.NoDeadline)
		if got := w.Header().Get("Grpc-Retry-Pushback-Ms"); got != want {
			t.Errorf("%q: %s, want %s", timeout, got, want)
		}
	}
}

func TestAMessageOfGRPCIsPercentEncoded(t *testing.T) {
	for message, want := range map[string]string{
		"Too many requests: retry in 2 seconds.": "Too many requests: retry in 2 seconds.",
		"100%":                                   "100%25",
		"zu viele\n":                             "zu viele%0A",
		"é\x7f":                                  "%C3%A9%7F",
	} {
		w := httptest.NewRecorder()
		answer.WriteGRPC(w, httptest.NewRequest("POST", "/", nil), 503, []byte(message), 0, 0)
		var got []string
		for _, name := range []string{"Content-Type", "Cache-Control", "Grpc-Status", "Grpc-Message"} {
			got = append(got, w.Header().Get(name))
		}
		if got, want := strings.Join(got, " | "), "application/grpc | no-store | 14 | "+want; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if w.Code != 200 || w.Body.Len() > 0 {
			t.Errorf("%d %q", w.Code, w.Body)
		}
	}
}
