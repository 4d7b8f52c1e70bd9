package nethttp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

// atCapacity is the document of a service that is full.
var atCapacity = document("temporary-reduced-capacity", "Temporary Reduced Capacity", 503,
	"The service is at capacity: retry in 1 second.", 1)

// tooMany is the document of a denial by rules with these names.
func tooMany(wait string, seconds int, names ...string) string {
	return document("quota-exceeded", "Quota Exceeded", 429,
		"Too many requests: retry in "+wait+".", seconds, names...)
}

// document is a problem document with the members that SDKs read. No seconds, no retry_after.
func document(problem, title string, status int, detail string, seconds int, names ...string) string {
	type report struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	of := report{"rate_limit_error", "rate_limit_exceeded", detail}
	if status == http.StatusServiceUnavailable {
		of = report{"overloaded_error", "service_unavailable", detail}
	}
	text, err := json.Marshal(struct {
		Type       string   `json:"type"`
		Title      string   `json:"title"`
		Status     int      `json:"status"`
		Detail     string   `json:"detail"`
		Message    string   `json:"message"`
		Error      report   `json:"error"`
		RetryAfter int      `json:"retry_after,omitempty"`
		Violated   []string `json:"violated-policies,omitempty"`
	}{
		"https://iana.org/assignments/http-problem-types#" + problem, title, status, detail, detail, of,
		seconds, names,
	})
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// service is a rule about the whole service, of n requests at once.
func service(n int64) nethttp.Rule {
	return nethttp.Rule{
		Name: "service", Limit: limits.Concurrent(n), Key: keyfuncs.Constant[*http.Request]("everybody"),
		DenyAs503: true,
	}
}

// during returns the answer of a limiter to a request that comes while another one is in
// flight.
func during(t *testing.T, config nethttp.Config, change ...func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	var handler http.Handler
	var second *httptest.ResponseRecorder
	calls := 0
	handler = nethttp.MustNew(config).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if calls++; calls == 1 {
			second = get(handler, change...)
		}
	}))
	get(handler)
	if calls != 1 {
		t.Errorf("%d requests went on, want 1", calls)
	}
	return second
}

func plain(r *http.Request) { r.Header.Set("Accept", "text/plain") }

func TestAServiceAtCapacityAnswers503WithoutNumbers(t *testing.T) {
	for name, tt := range map[string]struct {
		config nethttp.Config
		change func(*http.Request)
		body   string
	}{
		"problem": {nethttp.Config{}, func(*http.Request) {}, atCapacity},
		"plain":   {nethttp.Config{}, plain, "The service is at capacity: retry in 1 second.\n"},
		"PlainText": {
			nethttp.Config{Denied: nethttp.PlainText}, func(*http.Request) {},
			"The service is at capacity: retry in 1 second.\n",
		},
		"on denial": {
			nethttp.Config{Headers: headers.Options{Show: headers.OnDenial}}, func(*http.Request) {}, atCapacity,
		},
		"never": {
			nethttp.Config{Headers: headers.Options{Show: headers.Omit}}, func(*http.Request) {}, atCapacity,
		},
		"by formats": {
			nethttp.Config{
				Headers: headers.Options{Formats: []headers.Format{headers.IETF, headers.Draft6, headers.GitHub}},
			},
			func(*http.Request) {}, atCapacity,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.config.Rules = append(perClient(limits.FixedWindow(limits.PerMinute(10))).Rules, service(1))
			w := during(t, tt.config, tt.change)
			wantStatus(t, w, http.StatusServiceUnavailable)
			wantField(t, w, "Retry-After", "1")
			wantField(t, w, "Cache-Control", "no-store")
			if w.Body.String() != tt.body {
				t.Errorf("body %s, want %s", w.Body, tt.body)
			}
			for name := range w.Header() {
				if strings.Contains(name, "Ratelimit") {
					t.Errorf("%s: %s", name, w.Header().Get(name))
				}
			}
		})
	}
}

func TestAConcurrencyLimitOfClientsAnswers429(t *testing.T) {
	config := perClient(limits.Concurrent(1))
	w := during(t, config)
	wantStatus(t, w, http.StatusTooManyRequests)
	wantField(t, w, "Retry-After", "1")
	wantField(t, w, "RateLimit", `"per-client";r=0`)
	wantField(t, w, "RateLimit-Policy", `"per-client";q=1;qu="concurrent-requests"`)
	if want := tooMany("1 second", 1, "per-client"); w.Body.String() != want {
		t.Errorf("body %s, want %s", w.Body, want)
	}
}

// The client asked too much, too: it is told all rules that denied.
func TestCapacityAndAnotherDenialAnswer429AndNameBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := perClient(limits.FixedWindow(limits.PerMinute(1)))
		config.Rules = append(config.Rules, service(1))
		w := during(t, config)
		wantStatus(t, w, http.StatusTooManyRequests)
		wantField(t, w, "Retry-After", "60")
		wantField(t, w, "RateLimit", `"per-client";r=0;t=60, "service";r=0`)
		want := tooMany("60 seconds", 60, "per-client", "service")
		if w.Body.String() != want {
			t.Errorf("body %s, want %s", w.Body, want)
		}
	})
}

func TestARateMayBeACapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := service(1)
		rule.Limit = limits.TokenBucket(limits.PerMinute(2), 1)
		handler := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{rule}}).Handler(&hello{})
		w := get(handler)
		wantField(t, w, "RateLimit", `"service";r=0;t=30`)
		w = get(handler)
		wantStatus(t, w, http.StatusServiceUnavailable)
		wantField(t, w, "Retry-After", "30")
		wantField(t, w, "RateLimit", "")
		want := document("temporary-reduced-capacity", "Temporary Reduced Capacity", 503,
			"The service is at capacity: retry in 30 seconds.", 30)
		if w.Body.String() != want {
			t.Errorf("body %s, want %s", w.Body, want)
		}
	})
}

func TestACostAboveTheCapacityIsToldThatNoWaitHelps(t *testing.T) {
	rule := service(2)
	rule.Cost = func(*http.Request) int64 { return 3 }
	w := get(nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{rule}}).Handler(&hello{}))
	wantStatus(t, w, http.StatusTooManyRequests) // the client's doing
	wantField(t, w, "Retry-After", "")
	if body := w.Body.String(); !strings.Contains(body, "retrying will not help") ||
		!strings.Contains(body, "violated") {
		t.Errorf("body %s", body)
	}
}

func TestADenialByALocalRuleIsNamed(t *testing.T) {
	config := perClient(limits.FixedWindow(limits.PerHour(1000)))
	config.Backend = memory.MustNew(memory.Options{})
	local := nethttp.Rule{
		Name: "here", Limit: limits.AnchoredWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer), Local: true,
	}
	config.Backend, config.Rules = afar{config.Backend}, append(config.Rules, local)
	synctest.Test(t, func(t *testing.T) {
		handler := nethttp.MustNew(config).Handler(&hello{})
		wantStatus(t, get(handler), http.StatusOK)
		w := get(handler)
		wantStatus(t, w, http.StatusTooManyRequests)
		wantField(t, w, "RateLimit", `"here";r=0;t=86400`)
		if !strings.HasSuffix(w.Body.String(), `"violated-policies":["here"]}`+"\n") {
			t.Errorf("body %s", w.Body)
		}
	})
}

// afar is a backend that does not look like one of this process.
type afar struct{ inner backends.Backend }

func (r afar) Take(ctx context.Context, charges []backends.Charge, out []limits.Decision) error {
	return r.inner.Take(ctx, charges, out)
}

// Every 503 is without the fields of an outer limiter, the bare one of a deadline too.
func TestA503HasNoFieldsOfAnOuterLimiter(t *testing.T) {
	outer := perClient(limits.FixedWindow(limits.PerMinute(10)))
	outer.Rules[0].Name = "outer"
	noKey := perClient(limits.FixedWindow(limits.PerMinute(10)))
	noKey.Rules[0].Key = func(*http.Request) (string, error) { return "", errSecret }
	queue := perClient(limits.LeakyQueue(limits.PerHour(1), 3))
	fullQueue := perClient(limits.LeakyQueue(limits.PerHour(1), 3))
	fullQueue.MaxWaiting = 1
	spent := service(1)
	spent.Limit = limits.FixedWindow(limits.PerMinute(1))
	for name, config := range map[string]nethttp.Config{
		"capacity": {Rules: []nethttp.Rule{spent}},
		"no key":   noKey,
		"deadline": queue,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := nethttp.MustNew(outer).Handler(nethttp.MustNew(config).Handler(&hello{}))
				get(handler)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				w := get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) })
				wantStatus(t, w, http.StatusServiceUnavailable)
				wantField(t, w, "Cache-Control", "no-store")
				for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
					wantField(t, w, field, "")
				}
				if w.Header().Get("Retry-After") == "" {
					t.Error("no Retry-After")
				}
			})
		})
	}
	t.Run("queue is full", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			handler := nethttp.MustNew(outer).Handler(nethttp.MustNew(fullQueue).Handler(&hello{}))
			get(handler)
			ctx, leave := context.WithCancel(t.Context())
			go get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) })
			synctest.Wait()
			w := get(handler)
			leave()
			wantStatus(t, w, http.StatusServiceUnavailable)
			wantField(t, w, "RateLimit", "")
			wantField(t, w, "Retry-After", "1")
		})
	})
}
