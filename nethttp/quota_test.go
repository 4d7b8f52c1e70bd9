package nethttp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestQuota(t *testing.T) {
	parity.RunQuota(t, func(t *testing.T, c parity.Config[*http.Request], routes ...string) http.Handler {
		limiter, err := nethttp.New(nethttp.Config{
			Rules: c.Rules, Backend: c.Backend, Headers: c.Headers,
		})
		if err != nil {
			t.Fatal(err)
		}
		mux := http.NewServeMux()
		hello := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { parity.Hello(w) }))
		mux.Handle("GET /rate_limit", limiter.Quota(routes...))
		mux.Handle("GET /hello", hello)
		mux.Handle("POST /items", hello)
		return mux
	}, func(f func(*http.Request) (string, error)) func(*http.Request) (string, error) { return f })
}

// quotaOf returns the answer of limiter.Quota to a request of a client.
func quotaOf(limiter *nethttp.Limiter, client string) string {
	r := httptest.NewRequest("GET", "/rate_limit", nil)
	r.Header.Set("X-Client", client)
	w := httptest.NewRecorder()
	limiter.Quota().ServeHTTP(w, r)
	return w.Body.String()
}

func requestOf(client string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Client", client)
	return r
}

func TestTheQuotaOfEachKindOfLimit(t *testing.T) {
	client := keyfuncs.Header("X-Client")
	value := func(r *http.Request) (string, error) { return r.Header.Get("X-Value"), nil }
	plan := func(_ *http.Request, key string) (limits.Limit, error) {
		return limits.FixedWindow(limits.PerMinute(int64(len(key)))), nil
	}
	for _, tt := range []struct {
		name  string
		rule  nethttp.Rule
		takes int
		want  string // 2000-01-01 is 946684800
	}{
		{"bucket", nethttp.Rule{Limit: limits.TokenBucket(limits.PerMinute(60), 10)}, 4,
			`"r":{"limit":10,"used":4,"remaining":6,"reset":946684804}`},
		{"a part of a second is rounded up", nethttp.Rule{Limit: limits.TokenBucket(limits.PerMinute(90), 10)}, 1,
			`"r":{"limit":10,"used":1,"remaining":9,"reset":946684801}`},
		{"queue", nethttp.Rule{Limit: limits.LeakyQueue(limits.PerMinute(60), 10)}, 4,
			`"r":{"limit":10,"used":4,"remaining":6,"reset":946684804}`},
		{"sliding window", nethttp.Rule{Limit: limits.SlidingWindow(limits.PerMinute(5))}, 2,
			`"r":{"limit":5,"used":2,"remaining":3,"reset":946684920}`},
		{"running requests have no reset", nethttp.Rule{Limit: limits.Concurrent(3)}, 2,
			`"r":{"limit":3,"used":2,"remaining":1,"unit":"concurrent-requests"}`},
		{"values", nethttp.Rule{Limit: limits.Distinct(limits.PerMinute(3)), Value: value}, 2,
			`"r":{"limit":3,"used":1,"remaining":2,"reset":946684860,"unit":"distinct-values"}`},
		{"bytes", nethttp.Rule{Limit: limits.FixedWindow(limits.PerMinute(900)), Unit: core.ContentBytes,
			Cost: func(*http.Request) int64 { return 100 }}, 2,
			`"r":{"limit":900,"used":200,"remaining":700,"reset":946684860,"unit":"content-bytes"}`},
		{"ban", nethttp.Rule{Limit: limits.Ban(limits.PerMinute(2), time.Hour)}, 1,
			`"r":{"limit":2,"used":1,"remaining":1,"reset":946684860}`},
		{"banned until the end of the ban", nethttp.Rule{Limit: limits.Ban(limits.PerMinute(2), time.Hour)}, 2,
			`"r":{"limit":2,"used":2,"remaining":0,"reset":946688400}`},
		{"calendar", nethttp.Rule{Limit: limits.Calendar(5, limits.Month)}, 1,
			`"r":{"limit":5,"used":1,"remaining":4,"reset":949363200}`}, // 2000-02-01
		{"the plan of the client", nethttp.Rule{LimitFor: plan}, 1,
			`"r":{"limit":3,"used":1,"remaining":2,"reset":946684860}`},
		{"a plan without a limit", nethttp.Rule{Limit: limits.FixedWindow(limits.PerMinute(5)),
			Key: core.When(func(*http.Request) bool { return false }, client)}, 1, ``},
		{"a shadow", nethttp.Rule{Limit: limits.FixedWindow(limits.PerMinute(5)), Mode: core.Shadow}, 1, ``},
		{"a disabled rule", nethttp.Rule{Limit: limits.FixedWindow(limits.PerMinute(5)), Mode: core.Disabled}, 1, ``},
		{"a rule that cannot count and lets pass", nethttp.Rule{Limit: limits.FixedWindow(limits.PerMinute(5)),
			OnFailure: core.FailOpen, Key: func(*http.Request) (string, error) { return "", keyfuncs.ErrUnidentified }},
			1, ``},
		{"a name with quotes", nethttp.Rule{Name: `a"\b`, Limit: limits.FixedWindow(limits.PerMinute(5))}, 1,
			`"a\"\\b":{"limit":5,"used":1,"remaining":4,"reset":946684860}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tt.rule.Key == nil {
					tt.rule.Key = client
				}
				if tt.rule.Name == "" {
					tt.rule.Name = "r"
				}
				limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{tt.rule}})
				for range tt.takes {
					limiter.Decide(requestOf("ann"))
				}
				if got, want := quotaOf(limiter, "ann"), `{"resources":{`+tt.want+"}}\n"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// Rules that share a scope count together, and each says so.
func TestTheQuotaOfAScopeIsToldByEachOfItsRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := nethttp.Rule{
			Name: "a", Scope: "both", Limit: limits.FixedWindow(limits.PerMinute(9)), Key: keyfuncs.Header("X-Client"),
		}
		other := rule
		other.Name = "b"
		limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{rule, other}})
		limiter.Decide(requestOf("ann"))
		const want = `{"resources":{"a":{"limit":9,"used":2,"remaining":7,"reset":946684860},` +
			`"b":{"limit":9,"used":2,"remaining":7,"reset":946684860}}}` + "\n"
		if got := quotaOf(limiter, "ann"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// Nothing that a client adds to its request, or leaves out, shows it the quota of another.
func TestAQuotaHasNoParameter(t *testing.T) {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(5)), Key: keyfuncs.Address(keyfuncs.Peer),
	}}})
	victim := httptest.NewRequest("GET", "/", nil)
	victim.RemoteAddr = "203.0.113.9:1"
	limiter.Decide(victim)
	for _, target := range []string{
		"/rate_limit?key=203.0.113.9", "/rate_limit?rule=per-client&client=203.0.113.9", "/203.0.113.9",
	} {
		r := httptest.NewRequest("GET", target, nil)
		for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client"} {
			r.Header.Set(name, "203.0.113.9")
		}
		w := httptest.NewRecorder()
		limiter.Quota().ServeHTTP(w, r)
		if quota := w.Body.String(); w.Code != 200 || !strings.Contains(quota, `"used":0,"remaining":5`) {
			t.Errorf("%s: %d %s", target, w.Code, quota)
		}
	}
}

func TestAQuotaNeedsALimiter(t *testing.T) {
	for _, limiter := range []*nethttp.Limiter{nil, new(nethttp.Limiter)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			limiter.Quota()
		}()
	}
}

// endless is a body without an end. It counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestAQuotaForRoutesKeepsAMebibyteOfABody(t *testing.T) {
	var read int64
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(5)), OnFailure: core.FailOpen,
		Key: func(r *http.Request) (string, error) {
			n, err := io.CopyN(io.Discard, r.Body, 64<<20) // all of it without the bound
			read += n
			return "", err
		},
	}}})
	body := new(endless)
	w := httptest.NewRecorder()
	limiter.Quota("GET /a", "GET /b").ServeHTTP(w, httptest.NewRequest("GET", "/rate_limit", body))
	if w.Code != http.StatusRequestEntityTooLarge || read != 1<<20 || body.read > 2<<20 {
		t.Errorf("%d, the key function has read %d bytes, %d were read", w.Code, read, body.read)
	}
}

func TestOneListOfRulesTellsAQuota(t *testing.T) {
	rules := func(name string, key func(*http.Request) (string, error)) []nethttp.Rule {
		return []nethttp.Rule{{Name: name, Limit: limits.FixedWindow(limits.PerDay(5)), Key: key}}
	}
	client := keyfuncs.Header("X-Client")
	var limiter *nethttp.Limiter
	limiter = nethttp.MustNew(nethttp.Config{Rules: rules("old", func(r *http.Request) (string, error) {
		if err := limiter.Replace(rules("new", client)); err != nil { // after the first route was begun
			t.Error(err)
		}
		return client(r)
	})})
	for _, want := range []string{"old", "new"} {
		w := httptest.NewRecorder()
		limiter.Quota("GET /a", "GET /b").ServeHTTP(w, requestOf("ann"))
		var quota struct{ Resources map[string]any }
		if err := json.Unmarshal(w.Body.Bytes(), &quota); err != nil || len(quota.Resources) != 1 ||
			quota.Resources[want] == nil {
			t.Errorf("got %d %s, want rule %q alone", w.Code, w.Body, want)
		}
	}
}

// Files of a form are on disk if they are large.
func TestAQuotaForRoutesLeavesNoFileOfAForm(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	client := func(r *http.Request) (string, error) {
		err := r.ParseMultipartForm(1)
		return r.PostFormValue("client"), err
	}
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(5)), Key: client,
	}}})
	var content bytes.Buffer
	form := multipart.NewWriter(&content)
	form.WriteField("client", "ann")
	file, _ := form.CreateFormFile("file", "file")
	file.Write(make([]byte, 1_000_000))
	form.Close()
	r := httptest.NewRequest("POST", "/rate_limit", &content)
	r.Header.Set("Content-Type", form.FormDataContentType())
	w := httptest.NewRecorder()
	limiter.Quota("POST /a", "POST /b").ServeHTTP(w, r)
	if w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if files, err := os.ReadDir(dir); len(files) > 0 || err != nil {
		t.Errorf("left %v, %v", files, err)
	}
}
