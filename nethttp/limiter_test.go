package nethttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
	"github.com/weir-go/weir/remote"
)

func perClient(limit limits.Limit) nethttp.Config {
	return nethttp.Config{
		Rules: []nethttp.Rule{{Name: "per-client", Limit: limit, Key: keyfuncs.Address(keyfuncs.Peer)}},
	}
}

// hello counts how often it is called.
type hello struct{ called atomic.Int32 }

func (h *hello) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.called.Add(1)
	io.WriteString(w, "hello")
}

func get(handler http.Handler, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/", nil)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func wantStatus(t *testing.T, w *httptest.ResponseRecorder, want int) {
	t.Helper()
	if w.Code != want {
		t.Fatalf("status %d, want %d; fields %v, body %q", w.Code, want, w.Header(), w.Body)
	}
}

func wantField(t *testing.T, w *httptest.ResponseRecorder, name, want string) {
	t.Helper()
	if got := strings.Join(w.Header().Values(name), " | "); got != want {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
}

func TestAnAllowedRequestReachesItsHandlerWithTheFieldsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen string
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen = w.Header().Get("RateLimit")
			w.WriteHeader(http.StatusTeapot)
		})
		w := get(nethttp.MustNew(perClient(limits.SlidingWindow(limits.PerMinute(10)))).Handler(next))
		wantStatus(t, w, http.StatusTeapot)
		wantField(t, w, "RateLimit", `"per-client";r=9;t=54`)
		wantField(t, w, "RateLimit-Policy", `"per-client";q=10;w=60`)
		wantField(t, w, "Retry-After", "")
		wantField(t, w, "Cache-Control", "")
		if seen == "" {
			t.Error("the handler could not see the fields: they were set after it")
		}
	})
}

func TestADeniedRequestIsAnsweredWithAProblemAndGoesNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &hello{}
		handler := nethttp.MustNew(perClient(limits.TokenBucket(limits.PerMinute(2), 1))).Handler(next)
		get(handler)
		time.Sleep(500 * time.Millisecond)
		w := get(handler)
		wantStatus(t, w, http.StatusTooManyRequests)
		wantField(t, w, "Retry-After", "30") // 29.5 s, rounded up
		wantField(t, w, "RateLimit", `"per-client";r=0;t=30`)
		wantField(t, w, "Cache-Control", "no-store")
		wantField(t, w, "Content-Type", "application/problem+json")
		var problem struct {
			Type, Title, Detail string
			Status              int
			Violated            []string `json:"violated-policies"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
			t.Fatalf("%v in %s", err, w.Body)
		}
		if problem.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" ||
			problem.Title != "Quota Exceeded" ||
			problem.Status != 429 || problem.Detail != "Too many requests: retry in 30 seconds." ||
			len(problem.Violated) != 1 || problem.Violated[0] != "per-client" {
			t.Errorf("problem %+v", problem)
		}
		if next.called.Load() != 1 {
			t.Errorf("the handler was called %d times, want 1", next.called.Load())
		}
		time.Sleep(30 * time.Second) // the wait in Retry-After
		wantStatus(t, get(handler), http.StatusOK)
	})
}

func TestACostThatNeverFitsIsDeniedWithoutRetryAfter(t *testing.T) {
	config := perClient(limits.SlidingWindow(limits.PerMinute(10)))
	config.Rules[0].Cost = func(*http.Request) int64 { return 11 }
	w := get(nethttp.MustNew(config).Handler(&hello{}))
	wantStatus(t, w, http.StatusTooManyRequests)
	wantField(t, w, "Retry-After", "")
	wantField(t, w, "RateLimit", `"per-client";r=10`)
	if !strings.Contains(w.Body.String(), "retrying will not help") {
		t.Errorf("body %s", w.Body)
	}
}

func TestHEADIsCountedAndHasTheFieldsOfGETWithoutContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerMinute(1)))).Handler(&hello{})
		get(handler)
		head := get(handler, func(r *http.Request) { r.Method = "HEAD" })
		full := get(handler)
		wantStatus(t, head, http.StatusTooManyRequests)
		if head.Body.Len() != 0 {
			t.Errorf("body %q", head.Body)
		}
		wantField(t, head, "Content-Length", fmt.Sprint(full.Body.Len()))
		for _, name := range []string{"Retry-After", "Content-Type", "RateLimit", "RateLimit-Policy"} {
			wantField(t, head, name, full.Header().Get(name))
		}
	})
}

func TestFieldsOfAnOuterHandlersContentAreNotLeftOnADenial(t *testing.T) {
	limiter := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerMinute(1)))).Handler(&hello{})
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Allow": "GET", "ETag": `"v1"`, "Last-Modified": "Sat, 21 Nov 2026 09:00:00 GMT", "Expires": "0",
			"Content-Encoding": "br",
			"Content-Length":   "5", "Cache-Control": "public, max-age=3600", "X-Request-Id": "1",
		} {
			w.Header().Set(name, value)
		}
		limiter.ServeHTTP(w, r)
	})
	get(outer)
	w := get(outer)
	wantStatus(t, w, http.StatusTooManyRequests)
	for _, name := range []string{"Allow", "ETag", "Last-Modified", "Expires", "Content-Encoding", "Content-Length"} {
		wantField(t, w, name, "")
	}
	wantField(t, w, "Cache-Control", "no-store")
	wantField(t, w, "X-Request-Id", "1")
}

// These count more than the Cache-Control of the denial: nginx 1.22.1 stores a 429 with no-store if
// X-Accel-Expires comes first, and the others go by RFC 9213, section 2.2.
func TestNoFieldForOneCacheHasItStoreADenial(t *testing.T) {
	names := []string{"X-Accel-Expires", "CDN-Cache-Control", "Cloudflare-CDN-Cache-Control",
		"Surrogate-Control"}
	limiter := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerMinute(1)))).Handler(&hello{})
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range names {
			w.Header().Set(name, "60")
		}
		limiter.ServeHTTP(w, r)
	})
	wantField(t, get(outer), names[0], "60")
	denied := get(outer)
	wantStatus(t, denied, http.StatusTooManyRequests)
	for _, name := range names {
		wantField(t, denied, name, "")
	}
}

func TestADenialReplacesWhatTheHeaderOptionsHaveWritten(t *testing.T) {
	config := perClient(limits.SlidingWindow(limits.PerDay(1)))
	config.Headers.Custom = func(h http.Header, _ core.Outcome) { h.Set("Expires", "0") }
	handler := nethttp.MustNew(config).Handler(new(hello))
	get(handler)
	if got := get(handler).Header(); got.Get("Expires") != "" || got.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v, want no Expires, and Cache-Control: no-store", got)
	}
}

func TestAClientWithoutAnIdentityIsAnswered503NotA429(t *testing.T) {
	next := &hello{}
	config := perClient(limits.FixedWindow(limits.PerMinute(1)))
	w := get(nethttp.MustNew(config).Handler(next), func(r *http.Request) { r.RemoteAddr = "@" })
	wantStatus(t, w, http.StatusServiceUnavailable)
	wantField(t, w, "Retry-After", "1")
	wantField(t, w, "Cache-Control", "no-store")
	wantField(t, w, "RateLimit", "")
	if body := w.Body.String(); !strings.Contains(body, "#temporary-reduced-capacity") ||
		strings.Contains(body, "violated") || !json.Valid(w.Body.Bytes()) {
		t.Errorf("body %s", body)
	}
	if next.called.Load() != 0 {
		t.Error("the request went on")
	}

	config.Rules[0].OnFailure = core.FailOpen
	w = get(nethttp.MustNew(config).Handler(next), func(r *http.Request) { r.RemoteAddr = "@" })
	wantStatus(t, w, http.StatusOK)
	wantField(t, w, "RateLimit", "")
}

// down is a backend that always fails.
type down struct{}

var errSecret = errors.New("dial redis://:hunter2@10.0.0.1: refused")

func (down) Take(context.Context, []backends.Charge, []limits.Decision) error { return errSecret }

func TestABackendThatFailsNeverShowsItsError(t *testing.T) {
	for failure, want := range map[core.FailurePolicy]int{
		core.FallBack: 200, core.FailOpen: 200, core.FailClosed: 503,
	} {
		config := perClient(limits.FixedWindow(limits.PerMinute(1)))
		config.Backend = down{}
		config.Rules[0].OnFailure = failure
		w := get(nethttp.MustNew(config).Handler(&hello{}))
		wantStatus(t, w, want)
		if all := fmt.Sprint(w.Header(), w.Body); strings.Contains(all, "hunter2") || strings.Contains(all, "refused") {
			t.Errorf("the client sees %s", all)
		}
	}
}

// lost is a backend that cannot be reached.
type lost struct{ asked atomic.Int64 }

func (b *lost) Take(context.Context, []backends.Charge, []limits.Decision) error {
	b.asked.Add(1)
	return errSecret
}

func TestFourRoutesOfOneScopeAdmitOneLimitWhileTheBackendIsDown(t *testing.T) {
	backend := new(lost)
	mux := http.NewServeMux()
	for i := range 4 {
		limit := nethttp.MustNew(nethttp.Config{
			Backend: remote.MustNewDenialCache(backend, remote.DenialCacheOptions{}),
			Rules: []nethttp.Rule{{
				Name: fmt.Sprint("route-", i), Scope: "clients", Limit: limits.FixedWindow(limits.PerDay(10)),
				Key: keyfuncs.Address(keyfuncs.Peer),
			}},
		})
		mux.Handle(fmt.Sprint("GET /", i), limit.Handler(&hello{}))
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	admitted := 0
	for i := range 60 {
		response, err := http.Get(fmt.Sprint(server.URL, "/", i%4))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK:
			admitted++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("request %d: %s", i, response.Status)
		}
	}
	if admitted != 10 || backend.asked.Load() != 60 {
		t.Errorf("%d of 60 were admitted, the backend was asked %d times: want 10, and 60", admitted,
			backend.asked.Load())
	}
}

func TestACustomDenialFindsTheFieldsSet(t *testing.T) {
	config := perClient(limits.FixedWindow(limits.PerMinute(1)))
	config.Denied = func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
		if w.Header().Get("Retry-After") == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("fields %v", w.Header())
		}
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, "%v by %s", o.Verdict(), o.At(o.BindingRule()).Rule())
	}
	handler := nethttp.MustNew(config).Handler(&hello{})
	get(handler)
	w := get(handler)
	wantStatus(t, w, http.StatusTooManyRequests)
	if w.Body.String() != "denied by per-client" {
		t.Errorf("body %q", w.Body)
	}
}

func TestOnlyATruePreflightIsExempt(t *testing.T) {
	config := perClient(limits.FixedWindow(limits.PerHour(1)))
	config.SkipPreflight = true
	preflight := func(r *http.Request) {
		r.Method = "OPTIONS"
		r.Header.Set("Origin", "https://example.com")
		r.Header.Set("Access-Control-Request-Method", "POST")
	}
	options := func(r *http.Request) { r.Method = "OPTIONS"; r.Header.Set("Origin", "https://example.com") }
	posing := func(r *http.Request) { preflight(r); r.Method = "GET" }
	handler := nethttp.MustNew(config).Handler(&hello{})
	wantStatus(t, get(handler, options), 200)
	wantStatus(t, get(handler, options), 429)
	wantStatus(t, get(handler, posing), 429)
	wantStatus(t, get(handler, preflight), 200)

	config.SkipPreflight = false
	handler = nethttp.MustNew(config).Handler(&hello{})
	wantStatus(t, get(handler, preflight), 200)
	wantStatus(t, get(handler, preflight), 429)
}

// Any client can send what a preflight has. CORS middleware inside the limiter keeps that
// from the handlers; without it they are not limited.
func TestSkipPreflightLetsAnybodyPastABan(t *testing.T) {
	config := perClient(limits.Ban(limits.PerHour(1), time.Hour))
	config.SkipPreflight = true
	preflight := func(r *http.Request) {
		r.Method = "OPTIONS"
		r.Header.Set("Origin", "https://example.com")
		r.Header.Set("Access-Control-Request-Method", "POST")
	}
	reached := 0
	work := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
	cors := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "OPTIONS" && r.Header.Get("Access-Control-Request-Method") != "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		work(w, r)
	})
	for name, test := range map[string]struct {
		inside       http.Handler
		status, want int
	}{
		"a handler that takes OPTIONS": {work, 200, 1 + 1000},
		"CORS middleware":              {cors, 204, 1},
	} {
		reached = 0
		limit := nethttp.MustNew(config)
		handler := limit.Handler(test.inside)
		wantStatus(t, get(handler), 200)
		wantStatus(t, get(handler), 429)
		for range 1000 {
			wantStatus(t, get(handler, preflight), test.status)
		}
		wantStatus(t, get(handler), 429)
		if reached != test.want || limit.State().Preflights != 1000 {
			t.Errorf("%s: %d requests reached the handler, want %d; %d preflights", name, reached, test.want,
				limit.State().Preflights)
		}
	}
}

func TestTheOutcomeTravelsOnlyIfAskedTo(t *testing.T) {
	config := perClient(limits.FixedWindow(limits.PerMinute(5)))
	for _, asked := range []bool{false, true} {
		config.OutcomeInContext = asked
		var same *http.Request
		next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			o, ok := nethttp.OutcomeFrom(r.Context())
			if ok != asked || ok && (!o.Allowed() || o.At(0).Remaining != 4) {
				t.Errorf("asked %v: outcome %v, %+v", asked, ok, o)
			}
			if (r == same) == asked {
				t.Errorf("asked %v: the request was copied: %v", asked, r != same)
			}
		})
		handler := nethttp.MustNew(config).Handler(next)
		get(handler, func(r *http.Request) { same = r })
	}
}

func TestLimitersStackIntoOneList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		route := perClient(limits.FixedWindow(limits.PerMinute(1)))
		route.Rules[0].Name = "route"
		outer, inner := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerMinute(10)))), nethttp.MustNew(route)
		handler := outer.Handler(inner.Handler(&hello{}))
		w := get(handler)
		wantStatus(t, w, 200)
		wantField(t, w, "RateLimit", `"per-client";r=9;t=60, "route";r=0;t=60`)
		wantField(t, w, "RateLimit-Policy", `"per-client";q=10;w=60, "route";q=1;w=60`)
		w = get(handler)
		wantStatus(t, w, 429)
		wantField(t, w, "RateLimit", `"per-client";r=8;t=60, "route";r=0;t=60`)
		wantField(t, w, "Retry-After", "60")
	})
}

func TestOneLimiterOnSeveralRoutesCountsThemTogether(t *testing.T) {
	limit := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(2))))
	mux := http.NewServeMux()
	mux.Handle("GET /a", limit.Handler(&hello{}))
	mux.Handle("GET /b", limit.Handler(&hello{}))
	mux.Handle("GET /free", &hello{})
	at := func(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }
	wantStatus(t, get(mux, at("/a")), 200)
	wantStatus(t, get(mux, at("/b")), 200)
	wantStatus(t, get(mux, at("/a")), 429)
	wantStatus(t, get(mux, at("/b")), 429)
	wantStatus(t, get(mux, at("/free")), 200)
}

func TestAKeyByRoutePatternIsKnownBeforeAndInsideTheMux(t *testing.T) {
	at := func(path string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = path } }
	config := func(key func(*http.Request) (string, error)) nethttp.Config {
		return nethttp.Config{
			Rules: []nethttp.Rule{{Name: "route", Limit: limits.FixedWindow(limits.PerHour(2)), Key: key}},
		}
	}
	t.Run("outside", func(t *testing.T) {
		mux := http.NewServeMux()
		mux.Handle("GET /users/{id}", &hello{})
		mux.Handle("GET /posts/{id}", &hello{})
		handler := nethttp.MustNew(config(keyfuncs.MuxPattern(mux))).Handler(mux)
		wantStatus(t, get(handler, at("/users/1")), 200)
		wantStatus(t, get(handler, at("/users/2")), 200)
		wantStatus(t, get(handler, at("/users/3")), 429)
		wantStatus(t, get(handler, at("/posts/1")), 200)
		for i := range 2 {
			wantStatus(t, get(handler, at(fmt.Sprint("/random/", i))), 404)
		}
		wantStatus(t, get(handler, at("/random/2")), 429) // all unknown paths share one key
	})
	t.Run("inside", func(t *testing.T) {
		limit := nethttp.MustNew(config(keyfuncs.RoutePattern))
		mux := http.NewServeMux()
		mux.Handle("GET /users/{id}", limit.Handler(&hello{}))
		mux.Handle("GET /posts/{id}", limit.Handler(&hello{}))
		wantStatus(t, get(mux, at("/users/1")), 200)
		wantStatus(t, get(mux, at("/users/2")), 200)
		wantStatus(t, get(mux, at("/users/3")), 429)
		wantStatus(t, get(mux, at("/posts/1")), 200)
	})
}

func TestAQueuedRequestWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := nethttp.MustNew(perClient(limits.LeakyQueue(limits.PerSecond(2), 4))).Handler(&hello{})
		start := time.Now()
		var mu sync.Mutex
		var waited []time.Duration
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				w := get(handler)
				mu.Lock()
				defer mu.Unlock()
				if w.Code == 200 {
					waited = append(waited, time.Since(start))
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got, want := fmt.Sprint(waited), "[0s 500ms 1s 1.5s]"; got != want {
			t.Errorf("requests started after %s, want %s", got, want)
		}
	})
}

func TestAClientThatLeavesTheQueueIsNotServedAndItsSlotStaysSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &hello{}
		handler := nethttp.MustNew(perClient(limits.LeakyQueue(limits.PerSecond(1), 3))).Handler(next)
		get(handler)
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		go func() {
			time.Sleep(300 * time.Millisecond)
			cancel()
		}()
		w := get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) })
		if time.Since(start) != 300*time.Millisecond || next.called.Load() != 1 || w.Body.Len() != 0 {
			t.Errorf("ended after %v, %d served, body %q", time.Since(start), next.called.Load(), w.Body)
		}
		wantStatus(t, w, http.StatusServiceUnavailable) // in logs: the client does not see it
		wantField(t, w, "Retry-After", "1")
		wantField(t, w, "RateLimit", "")
		w = get(handler)
		wantStatus(t, w, 200)
		if time.Since(start) != 2*time.Second {
			t.Errorf("the next started after %v, want 2s: behind the slot of the one who left", time.Since(start))
		}
	})
}

func TestACallerThatHasLeftIsNotServed(t *testing.T) {
	next := &hello{}
	handler := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(1)))).Handler(next)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) })
	if next.called.Load() != 0 || w.Body.Len() != 0 {
		t.Errorf("served %d times, body %q: want nothing", next.called.Load(), w.Body)
	}
	wantStatus(t, w, http.StatusServiceUnavailable)
	wantField(t, w, "Retry-After", "1")
	wantField(t, w, "RateLimit", "")
	wantStatus(t, get(handler), 200) // it cost nothing
}

func TestAServersOwnDeadlineIsNotAnEmptySuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &hello{}
		handler := nethttp.MustNew(perClient(limits.LeakyQueue(limits.PerHour(1), 3))).Handler(next)
		get(handler)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w := get(handler, func(r *http.Request) { *r = *r.WithContext(ctx) })
		wantStatus(t, w, http.StatusServiceUnavailable)
		wantField(t, w, "Retry-After", "1")
		wantField(t, w, "Cache-Control", "no-store")
		if next.called.Load() != 1 {
			t.Error("the request went on")
		}
	})
}

func TestAPanicInTheHandlerPassesThrough(t *testing.T) {
	handler := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(5)))).Handler(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recovered %v, want what the handler panicked with", v)
		}
	}()
	get(handler)
}

func TestTheResponseWriterIsHandedOnAsItIs(t *testing.T) {
	var got http.ResponseWriter
	handler := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(5)))).Handler(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { got = w }))
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if got != http.ResponseWriter(w) {
		t.Errorf("the handler got a %T, want the server's own", got)
	}
}

func TestAnUpgradedConnectionWorksUnchanged(t *testing.T) {
	limit := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(1))))
	server := httptest.NewServer(limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString("echo " + line)
		rw.Flush()
	})))
	defer server.Close()
	upgrade := func() (status, echo string) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		r := bufio.NewReader(conn)
		status, _ = r.ReadString('\n')
		if !strings.Contains(status, "101") {
			return status, ""
		}
		for line := ""; line != "\r\n"; {
			line, err = r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
		}
		io.WriteString(conn, "hi\n")
		echo, _ = r.ReadString('\n')
		return status, echo
	}
	if status, echo := upgrade(); echo != "echo hi\n" {
		t.Errorf("first: %q, %q", status, echo)
	}
	if status, _ := upgrade(); !strings.Contains(status, "429") {
		t.Errorf("second: %q, want a denial before the upgrade", status)
	}
}

func TestStreamingAndHTTP2WorkUnchanged(t *testing.T) {
	limit := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(1))))
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "first\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-release
		io.WriteString(w, "second\n")
	})))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body := bufio.NewReader(response.Body)
	if line, err := body.ReadString('\n'); line != "first\n" || response.ProtoMajor != 2 {
		t.Errorf("HTTP/%d: %q, %v", response.ProtoMajor, line, err)
	}
	close(release)
	if line, _ := body.ReadString('\n'); line != "second\n" {
		t.Errorf("then %q", line)
	}
	if response.Header.Get("RateLimit") == "" {
		t.Errorf("fields %v", response.Header)
	}
	response, err = server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 429 || response.Header.Get("Retry-After") == "" {
		t.Errorf("%s, fields %v", response.Status, response.Header)
	}
}

func TestAnotherRequestsFieldsCannotBeChanged(t *testing.T) {
	var seen string
	handler := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(3)))).Handler(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			seen = w.Header().Get("RateLimit-Policy")
			for _, values := range w.Header() {
				for i := range values {
					values[i] = "changed"
				}
				_ = append(values, "changed")
			}
		}))
	get(handler)
	get(handler)
	if seen != `"per-client";q=3;w=3600` {
		t.Errorf("the second request found %s", seen)
	}
}

func TestNewReportsTheMistakesOfRulesAndHeadersTogether(t *testing.T) {
	_, err := nethttp.New(nethttp.Config{
		Rules:   []nethttp.Rule{{Name: "x", Limit: limits.FixedWindow(limits.PerHour(0))}},
		Headers: headers.Options{Formats: []headers.Format{headers.IETF, headers.Draft7}},
	})
	for _, want := range []string{`core: rule "x": limit: units`, `core: rule "x": key: is nil`, "headers: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	for name, f := range map[string]func(){
		"MustNew": func() { nethttp.MustNew(nethttp.Config{}) },
		"nil":     func() { (*nethttp.Limiter)(nil).Handler(&hello{}) },
		"zero":    func() { new(nethttp.Limiter).Handler(&hello{}) },
		"Handler": func() { nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(1)))).Handler(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestEachMistakeIsReportedOnce(t *testing.T) {
	rule := perClient(limits.FixedWindow(limits.PerHour(1))).Rules[0]
	named := func(name string) nethttp.Rule {
		r := rule
		r.Name = name
		return r
	}
	illegal := named("illegal")
	illegal.Limit = limits.TokenBucket(limits.Per(0, -time.Second), 0)
	for name, tt := range map[string]struct {
		rules   []nethttp.Rule
		headers headers.Options
		want    []string
	}{
		"empty name": {rules: []nethttp.Rule{named("")}, want: []string{`core: rule 1 of 1: name: is empty`}},
		"odd name": {
			rules: []nethttp.Rule{named("naïve")},
			want:  []string{`core: rule "naïve": name: must be printable ASCII (got "naïve")`},
		},
		"name twice": {
			rules: []nethttp.Rule{rule, rule},
			want: []string{
				`core: rule "per-client": name: another rule has the same name: rename one`,
			},
		},
		"illegal limit": {rules: []nethttp.Rule{illegal}, want: []string{
			`core: rule "illegal": limit: units of a token-bucket must be 1 to 1000000000 (got 0)`,
			`core: rule "illegal": limit: period must be positive (got -1s)`,
			`core: rule "illegal": limit: burst must be 1 to 1000000000 (got 0)`,
		}},
		"odd name that a header option has too": {
			rules: []nethttp.Rule{named("naïve")},
			headers: headers.Options{
				Formats: []headers.Format{headers.Discord},
				DiscordScopes: map[string]headers.DiscordScope{
					"naïve": headers.DiscordShared, "nosuch": headers.DiscordShared,
				},
			},
			want: []string{
				`core: rule "naïve": name: must be printable ASCII (got "naïve")`,
				`headers: discord scopes: there is no rule "nosuch"`,
			},
		},
		"headers alone": {
			rules:   []nethttp.Rule{rule},
			headers: headers.Options{Jitter: -time.Second},
			want:    []string{"headers: jitter: must be 0 to 24h (got -1s)"},
		},
	} {
		_, err := nethttp.New(nethttp.Config{Rules: tt.rules, Headers: tt.headers})
		if want := strings.Join(tt.want, "\n"); err == nil || err.Error() != want {
			t.Errorf("%s:\n%v\nwant\n%s", name, err, want)
		}
	}
}

func TestDecideLeavesTheAnswerToTheHandler(t *testing.T) {
	limit := nethttp.MustNew(perClient(limits.FixedWindow(limits.PerHour(1))))
	r := httptest.NewRequest("GET", "/", nil)
	if o := limit.Decide(r); !o.Allowed() {
		t.Errorf("first: %v", o.Verdict())
	}
	if o := limit.Decide(r); o.Verdict() != core.Denied {
		t.Errorf("second: %v", o.Verdict())
	}
}

// byForm is a rule whose key comes from the body.
func byForm(read func(r *http.Request, name string) string) *nethttp.Limiter {
	return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "user", Limit: limits.FixedWindow(limits.PerDay(2)),
		Key: func(r *http.Request) (string, error) { return read(r, "user"), nil },
	}}})
}

func post(handler http.Handler, contentType, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/login", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

const urlencoded, multipartForm = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"

func TestFormsReadByAKeyStayForTheHandler(t *testing.T) {
	const parts = "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nann\r\n" +
		"--x\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\npw\r\n--x--\r\n"
	for name, read := range map[string]func(*http.Request, string) string{
		"FormValue": (*http.Request).FormValue, "PostFormValue": (*http.Request).PostFormValue,
	} {
		handler := http.MaxBytesHandler(
			byForm(read).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(w, "%s/%s", r.FormValue("user"), r.PostFormValue("password"))
			})), 500)
		for _, body := range [][2]string{{urlencoded, "user=ann&password=pw"}, {multipartForm, parts}} {
			w := post(handler, body[0], body[1])
			wantStatus(t, w, http.StatusOK)
			if w.Body.String() != "ann/pw" {
				t.Errorf("%s, %s: the handler read %q", name, body[0], w.Body)
			}
		}
		wantStatus(t, post(handler, urlencoded, "user=ann&password=pw"), http.StatusTooManyRequests)
	}
}

func TestABodyThatIsNoFormStaysForTheHandlerWhatTheKeyAsksFor(t *testing.T) {
	handler := byForm((*http.Request).FormValue).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	}))
	if w := post(handler, "application/json", `{"user":"ann"}`); w.Body.String() != `{"user":"ann"}` {
		t.Errorf("the handler read %q", w.Body)
	}
}

// Nobody escapes a key that comes from the body by sending too long a body. Such
// requests count together, and the handler finds no form rather than half of one.
func TestABodyOverItsBoundCountsAsOneWithoutTheKey(t *testing.T) {
	handler := http.MaxBytesHandler(
		byForm((*http.Request).PostFormValue).Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := r.Body.Read(make([]byte, 1))
			var tooLarge *http.MaxBytesError
			fmt.Fprint(w, len(r.PostForm), errors.As(err, &tooLarge))
		})), 100)
	large := func(user string) *httptest.ResponseRecorder {
		return post(handler, urlencoded, "user="+user+"&padding="+strings.Repeat("x", 200))
	}
	for _, user := range []string{"ann", "bob"} {
		w := large(user)
		wantStatus(t, w, http.StatusOK)
		if w.Body.String() != "0 true" {
			t.Errorf("the handler found %s: want an empty form, and told why", w.Body)
		}
	}
	wantStatus(t, large("eve"), http.StatusTooManyRequests)
	wantStatus(t, post(handler, urlencoded, "user=ann"), http.StatusOK)
}

// net/http removes the files of the form that it finds in its own request.
func TestTheFormOfAHandlerIsFoundInTheRequestOfTheServer(t *testing.T) {
	for name, config := range map[string]nethttp.Config{
		"the outcome is in the context": {OutcomeInContext: true,
			Rules: []nethttp.Rule{{Name: "r", Limit: limits.FixedWindow(limits.PerDay(9)), Key: keyfuncs.Header("X-Client")}}},
		"the request has an end": {
			Rules: []nethttp.Rule{{Name: "r", Limit: limits.Concurrent(9), Key: keyfuncs.Header("X-Client")}}},
	} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(
			"--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\ntext\r\n--b--\r\n"))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		nethttp.MustNew(config).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := r.ParseMultipartForm(1); err != nil {
				t.Error(err)
			}
		})).ServeHTTP(httptest.NewRecorder(), r)
		if r.MultipartForm == nil {
			t.Errorf("%s: the files of the form are left on disk", name)
			continue
		}
		if err := r.MultipartForm.RemoveAll(); err != nil {
			t.Error(err)
		}
	}
}
