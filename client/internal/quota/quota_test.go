package quota_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/client/internal/quota"
)

// header returns the fields of an answer, one a line.
func header(fields string) http.Header {
	h := make(http.Header)
	for line := range strings.SplitSeq(fields, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

// Of several limits in one field the least counts, and of those with as much left the one that
// lasts longest. All lines of a field are one list.
func TestOfSeveralLimitsTheLeastCounts(t *testing.T) {
	for name, s := range map[string]struct {
		fields string
		left   int64
		window time.Duration
	}{
		"the second": {"X-RateLimit-Remaining: 30, 9, 12\n" +
			"X-RateLimit-Reset: 1, 60, 3600", 9, time.Minute},
		"equals": {"X-RateLimit-Remaining: 9, 9, 12\n" +
			"X-RateLimit-Reset: 60, 1, 3600", 9, time.Minute},
		"one reset":             {"X-RateLimit-Remaining: 30, 9\nX-RateLimit-Reset: 60", 9, time.Minute},
		"several resets of one": {"X-RateLimit-Remaining: 9\nX-RateLimit-Reset: 1, 60", 9, time.Minute},
		"several lines": {"X-RateLimit-Remaining: 30\nX-RateLimit-Remaining: 9\n" +
			"X-RateLimit-Reset: 1\nX-RateLimit-Reset: 60", 9, time.Minute},
		"one that is no number": {"X-RateLimit-Remaining: unlimited, 9\n" +
			"X-RateLimit-Reset: 1, 60", 9, time.Minute},
		"one that does not end":  {"X-RateLimit-Remaining: 3, 9\nX-RateLimit-Reset: -, 60", 9, time.Minute},
		"one that is no element": {"X-RateLimit-Remaining: , 9\nX-RateLimit-Reset: , 60", 9, time.Minute},
		"parameters": {"X-RateLimit-Remaining: 30;w=1, 9;w=60\n" +
			"X-RateLimit-Reset: 1, 60", 9, time.Minute},
		"in quotes":                 {"X-RateLimit-Remaining: \"9\"\nX-RateLimit-Reset: \"60\"", 9, time.Minute},
		"decimals are rounded down": {"X-RateLimit-Remaining: 9.99\nX-RateLimit-Reset: 60.0", 9, time.Minute},
		"those of older drafts":     {"RateLimit-Remaining: 30.5, 9.5\nRateLimit-Reset: 1, 60.000", 9, time.Minute},
		"many limits, of which 16 count": {
			"X-RateLimit-Remaining: 9,9,9,9, 9,9,9,9, 9,9,9,9, 9,9,9,9, 1\nX-RateLimit-Reset: 60",
			9, time.Minute},
		"a date, which has a comma": {"Date: " + "Sun, 22 Nov 2026 12:00:00 GMT" + "\nX-RateLimit-Remaining: 30, 9\n" +
			"X-RateLimit-Reset: " + "Sun, 22 Nov 2026 12:00:59 GMT", 9, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			source := "X-RateLimit-Reset"
			if name == "those of older drafts" {
				source = "RateLimit-Reset"
			}
			got, ok := quota.Of(header(s.fields))
			if !ok || got.Left != s.left || got.Window != s.window || got.Source != source {
				t.Errorf("%+v, %v, want %d left for %v", got, ok, s.left, s.window)
			}
		})
	}
}

func TestTheFieldsOfNewerDraftsAreBelievedFirst(t *testing.T) {
	for fields, want := range map[string]quota.Rest{
		"RateLimit: \"a\";r=5;t=30\nRateLimit-Remaining: 6\nRateLimit-Reset: 40": {
			Left: 5, Window: 30 * time.Second, Source: "RateLimit"},
		"RateLimit: malformed,\nRateLimit-Remaining: 6\nRateLimit-Reset: 40": {
			Left: 6, Window: 40 * time.Second, Whole: true, Source: "RateLimit-Reset"},
		"RateLimit: \"a\";r=5;t=3,\nRateLimit: \"b\";r=5;t=3\nRateLimit-Remaining: 6\nRateLimit-Reset: 4": {
			Left: 6, Window: 4 * time.Second, Whole: true, Source: "RateLimit-Reset"},
		"X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 50\nX-RateLimit-Reset-After: 2.5": {
			Left: 7, Window: 2500 * time.Millisecond, Whole: true,
			Source: "X-RateLimit-Reset-After"},
		"X-RateLimit-Limit: 9\nX-RateLimit-Remaining: 8\nX-RateLimit-Interval-Seconds: 10": {
			Left: 8, Limit: 9, Window: 10 * time.Second, Source: "X-RateLimit-Interval-Seconds"},
		"X-Shopify-Shop-Api-Call-Limit: 32/40": {
			Left: 8, Limit: 40, Window: 4500 * time.Millisecond,
			Source: "X-Shopify-Shop-Api-Call-Limit"},
	} {
		got, ok := quota.Of(header(fields))
		if want := equal(want, got); !ok || got != want {
			t.Errorf("%q is read as %+v, %v, want %+v", fields, got, ok, want)
		}
	}
}

// A gateway and the service behind it tell a limit each, in fields of their own.
func TestBetweenFamiliesTheLeastLeftCounts(t *testing.T) {
	const gateway = "RateLimit: \"all\";r=900;t=60\n"
	for fields, want := range map[string]quota.Rest{
		gateway + "X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 50": {
			Left: 7, Window: 50 * time.Second, Whole: true, Source: "X-RateLimit-Reset"},
		gateway + "X-RateLimit-Remaining: 901\nX-RateLimit-Reset: 50": {
			Left: 900, Window: time.Minute, Source: "RateLimit"},
		gateway + "X-RateLimit-Remaining: 900\nX-RateLimit-Reset: 3600": { // one limit, told twice
			Left: 900, Window: time.Minute, Source: "RateLimit"},
		gateway + "x-ratelimit-remaining-requests: 59\nx-ratelimit-reset-requests: 1s": {
			Left: 59, Window: time.Second, Whole: true, Source: "x-ratelimit-reset-requests"},
		gateway + "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: soon": {
			Left: 900, Window: time.Minute, Source: "RateLimit"},
		"RateLimit-Remaining: 5\nRateLimit-Reset: 9\nX-Shopify-Shop-Api-Call-Limit: 38/40": {
			Left: 2, Limit: 40, Window: 1500 * time.Millisecond, Source: "X-Shopify-Shop-Api-Call-Limit"},
		"X-RateLimit-Remaining: 9\nX-RateLimit-Reset: 60\nanthropic-ratelimit-requests-remaining: 4\n" +
			"anthropic-ratelimit-requests-reset: 30": {
			Left: 4, Window: 30 * time.Second, Whole: true, Source: "anthropic-ratelimit-requests-reset"},
	} {
		got, ok := quota.Of(header(fields))
		if want := equal(want, got); !ok || got != want {
			t.Errorf("%q is read as %+v, %v, want %+v", fields, got, ok, want)
		}
	}
}

func TestADenialIsAboutAnotherLimitIfMuchIsLeft(t *testing.T) {
	for q, want := range map[quota.Rest]bool{
		{}: false, {Left: 2}: false, {Left: 3}: true, {Left: 4999, Limit: 5000}: true,
		{Left: 500, Limit: 5000}: false, {Left: 501, Limit: 5000}: true, {Left: 2, Limit: 5}: false,
	} {
		if got := q.Ample(); got != want {
			t.Errorf("%d of %d are ample: %v", q.Left, q.Limit, got)
		}
	}
}

// equal returns want with what only the reader knows of got.
func equal(want, got quota.Rest) quota.Rest {
	got.Left, got.Limit, got.Window = want.Left, want.Limit, want.Window
	got.Whole, got.Source, got.Date = want.Whole, want.Source, want.Date
	return got
}

func TestADenialTellsItsWaitInTheFirstFieldThatIsRead(t *testing.T) {
	const date, unified = "Date: Sun, 22 Nov 2026 12:00:00 GMT\n", "anthropic-ratelimit-unified-"
	const fiveHours, week = unified + "5h-reset: 1795348830\n", unified + "7d-reset: 1795352400\n"
	const rejected = unified + "status: rejected"
	for fields, want := range map[string]struct {
		wait   time.Duration
		source string
	}{
		"Retry-After: 5\nX-Retry-After: 9":                              {5 * time.Second, "Retry-After"},
		"Retry-After: soon\nX-Retry-After: 9":                           {9 * time.Second, "X-Retry-After"},
		"retry-after-ms: 1500":                                          {1500 * time.Millisecond, "retry-after-ms"},
		"Retry-After: 5\nRetry-After: 7":                                {7 * time.Second, "Retry-After"},
		"Retry-After-Short: 1\nRetry-After-Long: 60":                    {time.Minute, "Retry-After-*"},
		date + "Retry-After: Sun, 22 Nov 2026 12:00:30 GMT":             {31 * time.Second, "Retry-After"},
		date + "Retry-After: 1795348830":                                {31 * time.Second, "Retry-After"},
		"Retry-After: 1m30s":                                            {90 * time.Second, "Retry-After"},
		"Retry-After: 99999999":                                         {quota.Longest, "Retry-After"},
		"Retry-After: -1":                                               {},
		date + fiveHours + unified + "5h-status: rejected\n" + rejected: {31 * time.Second, unified + "5h-reset"},
		date + fiveHours + unified + "5h-status: rejected\n" + week + unified + "7d-status: rejected\n" + rejected: {
			time.Hour + time.Second, unified + "7d-reset"},
		date + fiveHours + unified + "5h-status: allowed\n" + unified + "7d_oi-status: rejected\n" +
			unified + "7d_oi-reset: 1795352400\n" + rejected: {time.Hour + time.Second, unified + "7d_oi-reset"},
		date + rejected + "\n" + unified + "reset: 2026-11-22T12:00:30Z": {31 * time.Second, unified + "reset"},
		date + fiveHours + unified + "5h-status: allowed_warning\n" + unified + "status: allowed\n" +
			unified + "reset: 1795348830\n" + unified + "overage-status: rejected": {},
		"Retry-After: 9\n" + fiveHours + unified + "5h-status: rejected\n" + rejected: {9 * time.Second, "Retry-After"},
		"Content-Type: application/json":                                              {},
	} {
		wait, source, ok := quota.WaitOf(header(fields))
		if wait != want.wait || source != want.source || ok != (want.source != "") {
			t.Errorf("%q is read as %v by %q, %v", fields, wait, source, ok)
		}
	}
}
