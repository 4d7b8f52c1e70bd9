package answer_test

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/http/answer"
)

func TestACallOfGRPCIsAPostWithItsMediaType(t *testing.T) {
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
		{"POST", "application/grpc-web", 2, true},
		{"POST", "application/grpc-web+proto", 1, true},
		{"POST", "application/grpc-web-text", 1, true},
		{"POST", "application/grpc-web-text+proto;charset=utf-8", 1, true},
		{"GET", "application/grpc-web", 1, false},
		{"OPTIONS", "application/grpc-web", 1, false},
		{"POST", "application/grpc-webx", 2, false},
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
		wait, left time.Duration
		tooLong    bool
		want       string
	}{
		{time.Second, none, false, "1000"},
		{time.Microsecond, none, false, "1"},
		{1500*time.Microsecond + 1, none, false, "2"},
		{time.Second, time.Second + 1, false, "1000"},
		{time.Second, time.Second, false, "-1"},
		{time.Second, 0, false, "-1"},
		{time.Second, -1, false, "-1"},
		{0, none, false, "-1"},
		{-1, none, false, "-1"},
		{time.Minute, none, true, "-1"},
		{time.Hour, 2 * time.Hour, true, "3600000"}, // the deadline alone decides
		{math.MaxInt32 * time.Millisecond, none, false, "2147483647"},
		{math.MaxInt32*time.Millisecond + 1, none, false, "-1"},
		{none, none, false, "-1"},
	} {
		if got := answer.Pushback(tt.wait, tt.left, tt.tooLong); got != tt.want {
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
		"000000001S": "30000",
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
		answer.WriteGRPC(w, r, answer.GRPC{Status: 429, Wait: 30 * time.Second})
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
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", "application/grpc+proto")
		answer.WriteGRPC(w, r, answer.GRPC{Status: 503, Message: []byte(message)})
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
