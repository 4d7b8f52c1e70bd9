package nethttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

func TestPlainTextSaysWhatIsTrueOfTheOutcome(t *testing.T) {
	fails := func(r *http.Request) (string, error) {
		if r.URL.Path == "/nobody" {
			return "", context.DeadlineExceeded
		}
		return r.URL.Path, nil
	}
	for name, tt := range map[string]struct {
		options headers.Options
		path    string
		cost    int64
		status  int
		want    string
	}{
		"denied": {headers.Options{}, "/", 1, 429, "Too many requests: retry in 60 seconds.\n"},
		"hidden": {
			headers.Options{Show: headers.Omit}, "/", 1, 429, "Too many requests: retry in 60 seconds.\n",
		},
		"never": {
			headers.Options{}, "/", 2, 429, "This request costs more than its limit ever allows: retrying will not " +
				"help.\n",
		},
		"undecided": {
			headers.Options{}, "/nobody", 1, 503,
			"The service cannot decide on this request right now: retry in 1 second.\n",
		},
		"Retry-After raised": {
			headers.Options{Custom: retryAfter("90")}, "/", 1, 429, "Too many requests: retry in 90 seconds.\n",
		},
		"Retry-After long": {
			headers.Options{Custom: retryAfter("1033200")}, "/", 1, 429,
			"Too many requests: retry in 11 days and 23 hours.\n",
		},
		"Retry-After gone": {headers.Options{Custom: retryAfter("")}, "/", 1, 429, "Too many requests.\n"},
		"Retry-After a date": {
			headers.Options{Custom: retryAfter("Sun, 22 Nov 2026 00:00:00 GMT")}, "/", 1, 429, "Too many requests.\n",
		},
		"Retry-After quoted": {headers.Options{Custom: retryAfter(`1","x":"`)}, "/", 1, 429, "Too many requests.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := nethttp.MustNew(nethttp.Config{
				Rules: []nethttp.Rule{{Name: "secret-name", Limit: limits.TokenBucket(limits.PerMinute(1), 1),
					Key: fails, Cost: func(r *http.Request) int64 {
						if r.Header.Get("Spend") != "" {
							return 1
						}
						return tt.cost
					}}},
				Headers: tt.options,
				Denied:  nethttp.PlainText,
				Backend: memory.MustNew(memory.Options{MaxKeys: 10, Clock: stopped}),
			})
			for _, method := range []string{"GET", "HEAD"} {
				handler := limit.Handler(http.NotFoundHandler())
				spend := httptest.NewRequest("GET", tt.path, nil)
				spend.Header.Set("Spend", "1")
				handler.ServeHTTP(httptest.NewRecorder(), spend)
				r, w := httptest.NewRequest(method, tt.path, nil), httptest.NewRecorder()
				r.Header.Set("Accept", "application/json")
				handler.ServeHTTP(w, r)
				want := tt.want
				if method == "HEAD" {
					want = ""
				}
				if w.Code != tt.status || w.Body.String() != want ||
					w.Header().Get("Content-Type") != "text/plain; charset=utf-8" ||
					w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("%s: %d %v %q, want %d %q", method, w.Code, w.Header(), w.Body, tt.status, want)
				}
			}
		})
	}
}

// A problem document contains nothing that Custom wrote.
func TestAProblemDocumentHoldsNoTextOfRetryAfter(t *testing.T) {
	limit := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "r", Limit: limits.TokenBucket(limits.PerDay(1), 1),
				Key: func(*http.Request) (string, error) { return "k", nil }},
		},
		Headers: headers.Options{Custom: retryAfter(`1","x":"`)},
	})
	handler := limit.Handler(http.NotFoundHandler())
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	want := document("quota-exceeded", "Quota Exceeded", 429, "Too many requests.", 0, "r")
	if w.Body.String() != want {
		t.Errorf("got %s, want %s", w.Body, want)
	}
}

// stopped is a clock that stands still.
func stopped() time.Time { return time.Unix(1_800_000_000, 0) }

func retryAfter(value string) func(http.Header, core.Outcome) {
	return func(h http.Header, o core.Outcome) {
		if h.Del("Retry-After"); value != "" && !o.Allowed() {
			h.Set("Retry-After", value)
		}
	}
}

func TestPlainTextAnswersNeitherWhatIsAllowedNorWhoHasLeft(t *testing.T) {
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name: "r", Limit: limits.TokenBucket(limits.PerDay(1), 1),
		Key: func(r string) (string, error) { return r, nil },
	}}})
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, ctx := range []context.Context{t.Context(), left} {
		o := limiter.Decide(ctx, "client")
		w := httptest.NewRecorder()
		nethttp.PlainText(w, httptest.NewRequest("GET", "/", nil), o)
		if w.Body.Len() != 0 || len(w.Header()) != 0 {
			t.Errorf("%v: answered %d %v %q", o.Verdict(), w.Code, w.Header(), w.Body)
		}
	}
}
