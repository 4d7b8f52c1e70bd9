package answer_test

import (
	"encoding/json"
	"testing"

	"github.com/weir-go/weir/internal/http/answer"
)

func TestALongWaitIsSaidInHoursOrDaysAndIsNeverTooShort(t *testing.T) {
	for _, tt := range []struct{ retry, want string }{
		{"1", ": retry in 1 second."},
		{"0", ": retry in 0 seconds."},
		{"30", ": retry in 30 seconds."},
		{"7200", ": retry in 7200 seconds."},
		{"7201", ": retry in 2 hours and 1 minute."},
		{"7260", ": retry in 2 hours and 1 minute."},
		{"7261", ": retry in 2 hours and 2 minutes."},
		{"10740", ": retry in 2 hours and 59 minutes."},
		{"10741", ": retry in 3 hours."},
		{"86400", ": retry in 24 hours."},
		{"172740", ": retry in 47 hours and 59 minutes."},
		{"172741", ": retry in 2 days."},
		{"172800", ": retry in 2 days."},
		{"172801", ": retry in 2 days and 1 hour."},
		{"1036800", ": retry in 12 days."},
		{"1033201", ": retry in 12 days."},
		{"1033200", ": retry in 11 days and 23 hours."},
		{"31622400", ": retry in 366 days."},
		{"9223372036854775807", ": retry in 106751991167300 days and 16 hours."},
		{"9223372036854775808", ": retry in 9223372036854775808 seconds."}, // whoever wrote that
		{"", "."},
		{"-1", "."},
		{"Sun, 22 Nov 2026 00:00:00 GMT", "."},
	} {
		if got := string(answer.AppendRetry([]byte("x"), tt.retry)); got != "x"+tt.want {
			t.Errorf("%s: %q, want %q", tt.retry, got, "x"+tt.want)
		}
	}
}

// A wait is in the document exactly if Retry-After is a number.
func TestADocumentHasTheWaitOfRetryAfterOrNone(t *testing.T) {
	for retry, want := range map[string]string{
		"1":                             "1",
		"030":                           "30",
		"9223372036854775807":           "9223372036854775807",
		"9223372036854775808":           "",
		"":                              "",
		"-1":                            "",
		"+1":                            "",
		"Sun, 22 Nov 2026 00:00:00 GMT": "",
	} {
		for _, status := range []int{429, 503} {
			for _, bots := range []bool{false, true} {
				d := answer.Document{Status: status, Detail: []byte("Wait."), Retry: retry, Bots: bots}
				checkDocument(t, d, want)
			}
		}
	}
}

func checkDocument(t *testing.T, d answer.Document, wait string) {
	t.Helper()
	var got struct {
		Status     int
		Detail     string
		Message    string
		RetryAfter *json.Number `json:"retry_after"`
		Error      struct{ Type, Code, Message string }

		OK          *bool
		Code        string
		ErrorCode   int `json:"error_code"`
		Description string
		Parameters  *struct {
			RetryAfter json.Number `json:"retry_after"`
		}
	}
	text := append(answer.AppendProblem(nil, d), '}')
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	kind, code, short := "rate_limit_error", "rate_limit_exceeded", "rate_limited"
	if d.Status == 503 {
		kind, code, short = "overloaded_error", "service_unavailable", "service_unavailable"
	}
	if got.Status != d.Status || got.Detail != "Wait." || got.Message != "Wait." ||
		got.Error.Type != kind || got.Error.Code != code || got.Error.Message != "Wait." {
		t.Errorf("%s", text)
	}
	if has := got.RetryAfter != nil; has != (wait != "") || has && got.RetryAfter.String() != wait {
		t.Errorf("%q: %s", d.Retry, text)
	}
	switch {
	case !d.Bots:
		if got.OK != nil || got.Code+got.Description != "" || got.Parameters != nil {
			t.Errorf("members for bots: %s", text)
		}
	case got.OK == nil || *got.OK || got.Code != short || got.ErrorCode != d.Status ||
		got.Description != "Wait." || (got.Parameters != nil) != (wait != "") ||
		got.Parameters != nil && got.Parameters.RetryAfter.String() != wait:
		t.Errorf("%s", text)
	}
}
