package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// jsonDenial returns a 429 with fields and a body in JSON.
func jsonDenial(fields, body string) *http.Response {
	a := answer(429, append(list(fields), "Content-Type", "application/json; charset=utf-8")...)
	a.Body, a.ContentLength = io.NopCloser(strings.NewReader(body)), -1
	return a
}

// Denials that no wait cures, as services send them.
var finalDenials = []struct{ name, fields, body string }{
	{"OpenAI", "x-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 6m0s",
		`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","param":null,` +
			`"code":"insufficient_quota"}}`},
	{"OpenAI, a code of its own", "", `{"error":{"type":"insufficient_quota","code":"project_spend_limit_exceeded"}}`},
	{"OpenAI, before the body", "x-should-retry: false", `{"error":{"code":"rate_limit_exceeded"}}`},
	{"DashScope", "", `{"code":"insufficient_quota","message":"..."}`},
	{"Moonshot", "", `{"error":{"message":"...","type":"exceeded_current_quota_error"}}`},
	{"Z.ai", "", `{"error":{"code":"1113","message":"Insufficient balance"}}`},
	{"Stripe", "Stripe-Should-Retry: false", `{"error":{"code":"lock_timeout"}}`},
}

func TestADenialThatNoWaitCuresGoesBackWithItsBody(t *testing.T) {
	for _, dialect := range []client.Dialect{client.Standard, client.OpenAI} {
		for _, d := range finalDenials {
			synctest.Test(t, func(t *testing.T) {
				server := scripted(func(int, *http.Request) *http.Response { return jsonDenial(d.fields, d.body) })
				why := ""
				c := newClient(t, server, client.Options{Dialect: dialect, Observe: func(e client.Event) {
					if e.Kind == client.GaveUp {
						why = e.Why
					}
				}})
				for range 5 {
					response, err := c.RoundTrip(request(t, "GET", "http://a/", nil))
					if err != nil || response.StatusCode != 429 {
						t.Fatalf("%s: %v, %v", d.name, response, err)
					}
					if body, err := io.ReadAll(response.Body); string(body) != d.body || err != nil {
						t.Errorf("%s: the body is %q, %v", d.name, body, err)
					}
				}
				if len(server.at) != 5 || time.Since(server.began) > 0 || why == "" {
					t.Errorf("%s: %d requests in %v, because %q", d.name, len(server.at), time.Since(server.began), why)
				}
			})
		}
	}
}

// The wait holds, though the request that was denied is not repeated.
func TestAFinalDenialThatAsksForAWaitHoldsOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(int, *http.Request) *http.Response {
			return jsonDenial("Retry-After: 20\nx-should-retry: false", `{"error":{"type":"billing_error"}}`)
		})
		c := newClient(t, server, client.Options{MaxWait: 10 * time.Second})
		if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 429 || len(server.at) != 1 {
			t.Fatalf("%v, %v after %d requests", response, err, len(server.at))
		}
		_, err := get(c, "http://a/")
		wantWaitError(t, err, 20*time.Second, "Retry-After")
	})
}

func TestOtherDenialsInJSONAreRepeated(t *testing.T) {
	for _, d := range []struct{ fields, body string }{
		{"", `{"error":{"type":"requests","code":"rate_limit_exceeded","message":"insufficient_quota"}}`},
		{"x-should-retry: true", `{"error":{"code":"rate_limit_exceeded"}}`},
		{"Stripe-Should-Retry: true", `{}`},
		{"", `{"error":"insufficient_quota"}`}, {"", `{"error":{"code":429}}`}, {"", `["insufficient_quota"]`},
		{"", `{"error":{"code":"insufficient_quota"`}, {"", "null"}, {"", ""},
		{"", `{"error":{"code":"insufficient_quota"}}` + strings.Repeat(" ", 20_000)},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := scripted(func(i int, _ *http.Request) *http.Response {
				if i > 1 {
					return answer(200)
				}
				return jsonDenial(d.fields, d.body)
			})
			c := newClient(t, server, client.Options{})
			if response, err := get(c, "http://a/"); err != nil || response.StatusCode != 200 {
				t.Errorf("%q %q: %v, %v", d.fields, d.body, response, err)
			}
		})
	}
}

// weir says in the problem document that the request costs more than its limit ever allows.
func TestADenialOfWeirThatNoWaitHelpsGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
			Name: "units", Limit: limits.TokenBucket(limits.PerSecond(10), 10),
			Key:  keyfuncs.Constant[*http.Request]("all"),
			Cost: func(*http.Request) int64 { return 11 },
		}}})
		served := 0
		handler := limiter.Handler(http.NotFoundHandler())
		base, stop := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served++
			handler.ServeHTTP(w, r)
		}))
		defer stop()
		c := newClient(t, base, client.Options{})
		response, err := get(c, "http://a.example/")
		if err != nil || response.StatusCode != 429 || served != 1 {
			t.Errorf("%v, %v after %d requests", response, err, served)
		}
	})
}

// A place in flight is free once the answer without a body is here.
func TestADenialWithoutABodyIsNotHeldOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scripted(func(int, *http.Request) *http.Response {
			a := answer(429, "Content-Type", "application/json")
			a.Body = http.NoBody
			return a
		})
		c := newClient(t, server, client.Options{MaxInFlight: 1, MaxWait: time.Minute, Attempts: 1})
		for range 3 {
			response, err := c.RoundTrip(request(t, "HEAD", "http://a/", nil)) // its body is not closed
			if err != nil || response.StatusCode != 429 {
				t.Fatalf("%v, %v", response, err)
			}
		}
	})
}

// What bodies say of the wait, and what is believed. Fields come first.
func TestABodyTellsAWaitThatNoFieldTells(t *testing.T) {
	for _, d := range []struct {
		fields, body string
		wait         time.Duration
		source       string
	}{
		{"", `{"ok":false,"error_code":429,"parameters":{"retry_after":7}}`, 7 * time.Second, "body"},
		{"", `{"message":"...","retry_after":1.5,"global":false}`, 1500 * time.Millisecond, "body"},
		{"", `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":2500}`, 2500 * time.Millisecond, "body"},
		{"", `{"error":{"retry_after":7}}`, 7 * time.Second, "body"},
		{"", `{"error":{"code":429,"details":[{"@type":"a"},{"retryDelay":"34.5s"}]}}`,
			34500 * time.Millisecond, "body"},
		{"", `{"retry_after":99999999}`, 30 * 24 * time.Hour, "body"},
		{"RateLimit: \"a\";r=0;t=9", `{"retry_after":7}`, 7 * time.Second, "body"},
		{"Retry-After: 9", `{"retry_after":7}`, 9 * time.Second, "Retry-After"},
		{"", `{"retry_after":-7}`, time.Second, "backoff"},
		{"", `{"retry_after":"7"}`, time.Second, "backoff"},
		{"", `{"retry_after":1782907260}`, time.Second, "backoff"}, // an instant
		{"", `{"retry_after":1e400}`, time.Second, "backoff"},
		{"", `{"retry_after":{},"parameters":[7],"error":{"details":{"retryDelay":"7s"}}}`, time.Second, "backoff"},
		{"", `{"error":{"details":[7,{"retryDelay":7},{"retryDelay":"-7s"},{"retryDelay":"soon"}]}}`,
			time.Second, "backoff"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []client.Event
			c := newClient(t, scripted(func(int, *http.Request) *http.Response { return jsonDenial(d.fields, d.body) }),
				client.Options{Attempts: 1, Observe: func(e client.Event) { got = append(got, e) }})
			if _, err := get(c, "http://a/"); err != nil {
				t.Fatal(err)
			}
			most := d.wait + d.wait/2
			if e := got[0]; e.Kind != client.Limited || e.Wait < d.wait || e.Wait > most || e.Source != d.source {
				t.Errorf("%q %s: %+v, want a wait of %v by %s", d.fields, d.body, e, d.wait, d.source)
			}
		})
	}
}
