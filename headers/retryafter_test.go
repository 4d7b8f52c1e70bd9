package headers_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
)

func TestAWindowOfRetryAfterIsTheLongestOfWhatDenied(t *testing.T) {
	bucket := published{Name: "bucket", Limit: limits.TokenBucket(limits.PerMinute(100), 20)} // 12 s
	policies := []published{perMinute, perHour, bucket}
	ok, no := allowed(5, 30*time.Second, time.Minute), denied(0, 3*time.Second, time.Minute)
	for _, tt := range []struct {
		name        string
		decisions   []limits.Decision
		least, want string
	}{
		{"one", []limits.Decision{no, ok, ok}, "3", "60"},
		{"another", []limits.Decision{ok, ok, no}, "3", "12"},
		{"two", []limits.Decision{no, no, ok}, "3", "3600"},
		{"the longest wait is of the shorter window", []limits.Decision{denied(0, 59*time.Second, time.Minute), ok, no},
			"59", "60"},
		{"a wait longer than the window", []limits.Decision{denied(0, 61*time.Second, time.Minute), ok, ok}, "61",
			"61"},
		{"a wait just longer", []limits.Decision{denied(0, time.Minute+time.Microsecond, time.Minute), ok, ok}, "61",
			"61"},
		{"no wait helps", []limits.Decision{denied(0, limits.Never, time.Minute), ok, ok}, "", ""},
		{"no wait helps with one", []limits.Decision{no, denied(0, limits.Never, time.Minute), ok}, "", ""},
		{"allowed", []limits.Decision{ok, ok, ok}, "", ""},
	} {
		for _, show := range []headers.Show{headers.Always, headers.OnDenial, headers.Omit} {
			o := decided(t, policies, tt.decisions...)
			for choice, want := range map[headers.RetryAfter]string{
				headers.LeastWait: tt.least, headers.Window: tt.want,
			} {
				h := written(t, headers.Options{Show: show, RetryAfter: choice}, policies, o)
				if got := h.Get("Retry-After"); got != want {
					t.Errorf("%s, show %d, choice %d: got %q, want %q", tt.name, show, choice, got, want)
				}
			}
		}
	}
}

func TestAWindowOfRetryAfterLeavesTheLeastWaitInT(t *testing.T) {
	policies := []published{perMinute}
	o := decided(t, policies, denied(0, 3*time.Second, time.Minute))
	want(t, written(t, headers.Options{RetryAfter: headers.Window}, policies, o),
		`RateLimit-Policy: "default";q=100;w=60`, `RateLimit: "default";r=0;t=3`, "Retry-After: 60")
	want(t,
		written(t, headers.Options{RetryAfter: headers.Window, Formats: []headers.Format{headers.Draft7}}, policies, o),
		`RateLimit-Policy: 100;w=60`, `RateLimit: limit=100, remaining=0, reset=60`, "Retry-After: 60")
}

func TestAWindowOfRetryAfterIsThatOfTheLimitHeldTo(t *testing.T) {
	known := []published{{Name: "plan"}} // the limit is found per request
	actual := published{Name: "plan", Limit: limits.FixedWindow(limits.Per(5, 90*time.Second))}
	o := decided(t, []published{actual}, denied(0, 3*time.Second, time.Minute))
	if got := written(t, headers.Options{RetryAfter: headers.Window}, known, o).Get("Retry-After"); got != "90" {
		t.Errorf("got %q, want 90", got)
	}
}

func TestAWindowSaysNothingOfWhatCouldNotBeDecided(t *testing.T) {
	rules := rulesOf(perMinute)
	rules[0].OnFailure = core.FailClosed
	o := core.MustNew(core.Config[string]{Rules: rules, Backend: broken{}}).Decide(t.Context(), "client")
	want(t, written(t, headers.Options{RetryAfter: headers.Window}, []published{perMinute}, &o), "Retry-After: 1")
}

func TestJitterIsAddedToAWindow(t *testing.T) {
	policies := []published{perMinute}
	o := decided(t, policies, denied(0, 3*time.Second, time.Minute))
	w := writer(t, headers.Options{RetryAfter: headers.Window, Jitter: 10 * time.Second}, policies...)
	seen := map[int64]bool{}
	for range 1000 {
		h := fields()
		w.Write(h, o)
		retry := integer(t, h.Get("Retry-After"))
		if retry < 60 || retry > 70 {
			t.Fatalf("Retry-After %d, want 60 to 70", retry)
		}
		seen[retry] = true
	}
	if len(seen) < 5 {
		t.Errorf("only %v", seen)
	}
}

// Many clients sleep through any wait, or ignore a long one and come back at once.
func TestALongWaitStaysOutOfRetryAfterAlone(t *testing.T) {
	policies := []published{perHour}
	for _, tt := range []struct {
		wait        time.Duration
		max         time.Duration
		retry, text string
		left        bool
	}{
		{time.Minute, time.Minute, "60", "60", false},
		{time.Minute + 1, time.Minute, "", "61", true},
		{61 * time.Second, time.Minute, "", "61", true},
		{61 * time.Second, 61*time.Second + 999*time.Millisecond, "61", "61", false},
		{61 * time.Second, 0, "61", "61", false},
		{limits.Never, time.Minute, "", "", false},
	} {
		o := decided(t, policies, denied(0, tt.wait, tt.wait))
		for _, show := range []headers.Show{headers.Always, headers.OnDenial, headers.Omit} {
			h := written(t, headers.Options{Show: show, MaxRetryAfter: tt.max}, policies, o)
			if got := h.Get("Retry-After"); got != tt.retry || headers.TooLong(h) != tt.left {
				t.Errorf("%v of %v: Retry-After %q, TooLong %t", tt.wait, tt.max, got, headers.TooLong(h))
			}
		}
		if tt.text == "" {
			continue
		}
		formats := []headers.Format{headers.Draft7}
		for _, options := range []headers.Options{{MaxRetryAfter: tt.max}, {MaxRetryAfter: tt.max, Formats: formats}} {
			h := written(t, options, policies, o)
			if got := h.Get("RateLimit"); !strings.HasSuffix(got, "t="+tt.text) {
				t.Errorf("%v of %v: RateLimit: %s, want a wait of %s", tt.wait, tt.max, got, tt.text)
			}
		}
	}
}
