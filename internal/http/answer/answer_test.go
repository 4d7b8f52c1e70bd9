package answer_test

import (
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

func TestTheMemberOfAWaitIsANumberOrAbsent(t *testing.T) {
	for retry, want := range map[string]string{
		"1":                             `,"retry_after":1`,
		"030":                           `,"retry_after":30`,
		"9223372036854775807":           `,"retry_after":9223372036854775807`,
		"9223372036854775808":           "",
		"":                              "",
		"-1":                            "",
		"+1":                            "",
		"Sun, 22 Nov 2026 00:00:00 GMT": "",
	} {
		if got := string(answer.AppendRetryMember(nil, retry)); got != want {
			t.Errorf("%q: %q, want %q", retry, got, want)
		}
	}
}
