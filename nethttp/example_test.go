package nethttp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/nethttp"
)

// ask sends a request to handler and prints the answer.
func ask(handler http.Handler, method, path string) {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	fmt.Println(method, path, w.Code, w.Body)
}

var hi = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hi") })

// A limit around a whole mux.
func Example() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.FixedWindow(limits.PerDay(2)),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
	})
	mux := http.NewServeMux()
	mux.Handle("GET /", hi)
	handler := limiter.Handler(mux) // of an http.Server

	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"), w.Header().Get("Retry-After") != "")
	}
	// Output:
	// 200 "per-client";q=2;w=86400 false
	// 200 "per-client";q=2;w=86400 false
	// 429 "per-client";q=2;w=86400 true
}

// A limit on one route, inside another around all of them.
func ExampleLimiter_Handler() {
	perDay := func(name string, n int64) *nethttp.Limiter {
		return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
			Name: name, Limit: limits.TokenBucket(limits.PerDay(n), n), Key: keyfuncs.Address(keyfuncs.Peer),
		}}})
	}
	mux := http.NewServeMux()
	mux.Handle("POST /reports", perDay("reports", 1).Handler(hi))
	mux.Handle("GET /", hi)
	handler := perDay("per-client", 100).Handler(mux)

	denied := func(path, method string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit"))
	}
	denied("/", "GET")
	denied("/reports", "POST")
	denied("/reports", "POST")
	// Output:
	// 200 "per-client";r=99;t=85536
	// 200 "per-client";r=98;t=84672, "reports";r=0;t=86400
	// 429 "per-client";r=97;t=83808, "reports";r=0;t=86400
}

func ExampleNew() {
	_, err := nethttp.New(nethttp.Config{
		Rules:   []nethttp.Rule{{Name: "per-client", Limit: limits.SlidingWindow(limits.PerMinute(0))}},
		Headers: headers.Options{Formats: []headers.Format{headers.IETF, headers.Draft7}},
	})
	fmt.Println(err)
	// Output:
	// core: rule "per-client": key: is nil: set a key function (keyfuncs returns nil for illegal arguments)
	// core: rule "per-client": limit: units of a sliding-window must be 1 to 1000000000 (got 0)
	// headers: formats: IETF and Draft7 both use RateLimit and RateLimit-Policy with different types: choose one
}

func ExampleMustNew() {
	defer func() { fmt.Println(recover()) }()
	nethttp.MustNew(nethttp.Config{})
	// Output: core: no rules: a limiter needs at least one
}

// The whole limiter of an API whose clients connect directly.
func ExampleMustPerAddress() {
	limiter := nethttp.MustPerAddress(limits.PerDay(2), keyfuncs.Peer)
	handler := limiter.Handler(hi)
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=2;w=86400
	// 200 "per-address";q=2;w=86400
	// 429 "per-address";q=2;w=86400
}

// Two servers with one limit. Their backend would be that of redisbackend.Open.
func ExamplePerAddress() {
	shared := memory.MustNew(memory.Options{})
	for range 2 {
		limiter, err := nethttp.PerAddress(limits.PerDay(1), keyfuncs.Peer, shared)
		if err != nil {
			fmt.Println(err)
			return
		}
		w := httptest.NewRecorder()
		limiter.Handler(hi).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "per-address";q=1;w=86400
	// 429 "per-address";q=1;w=86400
}

// A limit by a value in the request's context.
func ExampleRule() {
	type userKey struct{}
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name:  "per-user",
		Limit: limits.FixedWindow(limits.PerDay(1)),
		Key: keyfuncs.FromContext(func(ctx context.Context) (string, bool) {
			user, ok := ctx.Value(userKey{}).(string)
			return user, ok
		}),
	}}})
	handler := limiter.Handler(hi)
	for _, user := range []string{"ann", "ann", "bob"} {
		r := httptest.NewRequest("GET", "/", nil)
		r = r.WithContext(context.WithValue(r.Context(), userKey{}, user))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(user, w.Code)
	}
	// Output:
	// ann 200
	// ann 429
	// bob 200
}

// A client that has used up its limit still hears that the registry works. A denial of /v2/ sends
// some clients to a protocol that is gone. Probes have a limit of their own, ten times as high.
func ExampleMustProbes() {
	isProbe := nethttp.MustProbes("/v2/", "/healthz", "GET /info/{name}", "HEAD /files/{path...}")
	client := keyfuncs.Address(keyfuncs.Peer)
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "requests", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: core.Unless(isProbe, client)},
			{Name: "probes", Limit: limits.TokenBucket(limits.PerDay(10), 10), Key: core.When(isProbe, client)},
		},
		Denied: func(w http.ResponseWriter, _ *http.Request, o core.Outcome) {
			w.WriteHeader(o.Status())
			fmt.Fprint(w, o.Verdict())
		},
	})
	registry := limiter.Handler(hi)
	ask(registry, "GET", "/v2/app/manifests/1")
	ask(registry, "GET", "/v2/app/manifests/1")
	for range 9 { // as a flood does
		registry.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v2/", nil))
	}
	ask(registry, "GET", "/v2/")
	ask(registry, "GET", "/v2/")
	// Output:
	// GET /v2/app/manifests/1 200 hi
	// GET /v2/app/manifests/1 429 denied
	// GET /v2/ 200 hi
	// GET /v2/ 429 denied
}

// A GET of everything below a path is no probe: it would lift the limit of downloads.
func ExampleProbes() {
	_, err := nethttp.Probes("healthz", "/files/{path...}")
	fmt.Println(err)
	// Output:
	// nethttp: Probes: must be a path such as /healthz, without dots, blanks and query (got "healthz")
	// nethttp: Probes: only HEAD probes a whole tree: write HEAD in front (got "/files/{path...}")
}

func ExampleConfig_denied() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer)},
		},
		Denied: func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(o.Status())
			json.NewEncoder(w).Encode(map[string]string{"error": o.Verdict().String()})
		},
	})
	handler := limiter.Handler(hi)
	ask(handler, "GET", "/")
	ask(handler, "GET", "/")
	// Output:
	// GET / 200 hi
	// GET / 429 {"error":"denied"}
}

func ExamplePlainText() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "per-client", Limit: limits.TokenBucket(limits.PerMinute(1), 1),
				Key: keyfuncs.Address(keyfuncs.Peer)},
		},
		Denied: nethttp.PlainText,
		// A clock that stands still, so that the output is always the same.
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(1_800_000_000, 0) }}),
	})
	handler := limiter.Handler(hi)
	ask(handler, "GET", "/")
	ask(handler, "GET", "/")
	// Output:
	// GET / 200 hi
	// GET / 429 Too many requests: retry in 60 seconds.
}

// An answer that shared caches may store has no fields: a cache would send those of one client to all
// others.
func ExampleConfig_caches() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.TokenBucket(limits.PerMinute(60), 60),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(0, 0) }}),
		Headers: headers.Options{NotOnStorable: true},
	})
	for _, cache := range []string{"public, max-age=60", "private, max-age=60"} {
		handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", cache)
			fmt.Fprint(w, "hi")
		}))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Printf("%s: %q\n", cache, w.Header().Get("RateLimit"))
	}
	// Output:
	// public, max-age=60: ""
	// private, max-age=60: "\"per-client\";r=58;t=58"
}

// A redirect has no fields, so no client waits before it follows it. A denial has members that SDKs
// read.
func ExampleConfig_redirects() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.TokenBucket(limits.PerMinute(1), 1),
			Key:   keyfuncs.Address(keyfuncs.Peer),
		}},
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(0, 0) }}),
		Headers: headers.Options{NotOnRedirects: true},
	})
	handler := limiter.Handler(http.RedirectHandler("/new", http.StatusMovedPermanently))
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/old", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("RateLimit"))
		if w.Code == http.StatusTooManyRequests {
			fmt.Print(w.Body)
		}
	}
	// Output:
	// 301 ""
	// 429 "\"per-client\";r=0;t=60"
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota Exceeded","status":429,"detail":"Too many requests: retry in 60 seconds.","message":"Too many requests: retry in 60 seconds.","error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"Too many requests: retry in 60 seconds."},"retry_after":60,"violated-policies":["per-client"]}
}

// The log says why a request was answered 503. Without a Logger the lines go to slog.Default.
func ExampleConfig_logger() {
	lines, w := io.Pipe() // lines are written in the background
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-client",
			Limit: limits.SlidingWindow(limits.PerMinute(10)),
			Key:   keyfuncs.Address(keyfuncs.MustTrustedProxies("192.0.2.0/24")),
		}},
		Logger: slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
	})
	ask(limiter.Handler(hi), "GET", "/") // from 192.0.2.1, which sends no X-Forwarded-For
	line, _ := bufio.NewReader(lines).ReadString('\n')
	fmt.Println(strings.ReplaceAll(line, `" `, "\"\n"))
	// Output:
	// GET / 503 {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"The service cannot decide on this request right now: retry in 1 second.","message":"The service cannot decide on this request right now: retry in 1 second.","error":{"type":"overloaded_error","code":"service_unavailable","message":"The service cannot decide on this request right now: retry in 1 second."},"retry_after":1}
	//
	// level=WARN msg="weir: a rule cannot decide"
	// rule=per-client failed=key requests=1 error="keyfuncs: cannot tell who sent the request: the forwarding header is missing"
	// effect="requests are unavailable (503)"
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// A limit on the whole service. A denial by it is not the client's fault.
func ExampleConfig_capacity() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{
		{Name: "per-client", Limit: limits.TokenBucket(limits.PerDay(100), 100), Key: keyfuncs.Address(keyfuncs.Peer)},
		{Name: "service", Limit: limits.Concurrent(1), Key: keyfuncs.Constant[*http.Request]("everybody"),
			DenyAs503: true},
	}})
	var handler http.Handler
	handler = limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		second := httptest.NewRecorder() // comes while this request is in flight
		handler.ServeHTTP(second, httptest.NewRequest("GET", "/", nil))
		fmt.Println(second.Code, "Retry-After:", second.Header().Get("Retry-After"))
		fmt.Println(second.Body)
	}))
	first := httptest.NewRecorder()
	handler.ServeHTTP(first, httptest.NewRequest("GET", "/", nil))
	fmt.Println(first.Code, first.Header().Get("RateLimit-Policy"))
	// Output:
	// 503 Retry-After: 1
	// {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":"Temporary Reduced Capacity","status":503,"detail":"The service is at capacity: retry in 1 second.","message":"The service is at capacity: retry in 1 second.","error":{"type":"overloaded_error","code":"service_unavailable","message":"The service is at capacity: retry in 1 second."},"retry_after":1}
	//
	// 200 "per-client";q=100;w=86400, "service";q=1;qu="concurrent-requests"
}

// A backend that fails, its fallback, and the operator's view of both.
func ExampleConfig() {
	perClient := nethttp.Rule{
		Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(4)), Key: keyfuncs.Address(keyfuncs.Peer),
	}
	limiter := nethttp.MustNew(nethttp.Config{
		Rules:     []nethttp.Rule{perClient},
		Backend:   unreachable{},                                 // a backend that many instances share
		Fallback:  memory.MustNew(memory.Options{MaxKeys: 1000}), // while it is down
		Instances: 4,                                             // each allows a quarter then
		Observer: core.ObserverFuncs[*http.Request]{OnDecision: func(_ context.Context, r *http.Request,
			o core.Outcome) {
			fmt.Println(r.Method, o.Verdict(), "by", o.At(0).Source, "despite:", o.Err())
		}},
	})
	handler := limiter.Handler(hi)
	ask(handler, "GET", "/")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code)

	perClient.OnFailure = core.FailClosed
	closed := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{perClient}, Backend: unreachable{}})
	w = httptest.NewRecorder()
	closed.Handler(hi).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, w.Header().Get("Retry-After"))
	// Output:
	// GET allowed by fallback despite: connection refused
	// GET / 200 hi
	// GET denied by fallback despite: connection refused
	// 429
	// 503 1
}

// unreachable is a backend that always fails.
type unreachable struct{}

func (unreachable) Take(context.Context, []backends.Charge, []limits.Decision) error {
	return errors.New("connection refused")
}

// CORS middleware inside the limiter answers preflights. Without it, anybody could send such
// requests to the handler past every rule.
func ExampleConfig_skipPreflight() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer)},
		},
		SkipPreflight: true,
	})
	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "https://app.example")
			if r.Method == "OPTIONS" && r.Header.Get("Access-Control-Request-Method") != "" {
				w.WriteHeader(http.StatusNoContent)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	handler := limiter.Handler(cors(hi))
	ask(handler, "OPTIONS", "/") // counted, because it is not a preflight
	preflight := httptest.NewRequest("OPTIONS", "/", nil)
	preflight.Header.Set("Origin", "https://app.example")
	preflight.Header.Set("Access-Control-Request-Method", "POST")
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, preflight)
		fmt.Println(w.Code)
	}
	// Output:
	// OPTIONS / 200 hi
	// 204
	// 204
	// 204
}

// Requests start 10 ms apart, one after the other, instead of being denied.
func ExampleLimiter_Handler_queue() {
	limiter := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "evenly", Limit: limits.LeakyQueue(limits.PerSecond(100), 50),
		Key: keyfuncs.Constant[*http.Request]("everybody"),
	}}})
	handler := limiter.Handler(hi)
	start := time.Now()
	for range 4 {
		ask(handler, "GET", "/")
	}
	fmt.Println(time.Since(start) > 29*time.Millisecond)
	// Output:
	// GET / 200 hi
	// GET / 200 hi
	// GET / 200 hi
	// GET / 200 hi
	// true
}

// A handler that decides and answers by itself.
func ExampleControls_Decide() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "previews", Limit: limits.FixedWindow(limits.PerDay(1)), Key: keyfuncs.Address(keyfuncs.Peer)},
		},
	})
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outcome := limiter.Decide(r)
		if outcome.Allowed() {
			fmt.Fprint(w, "with a fresh preview")
		} else {
			fmt.Fprint(w, "with yesterday's preview")
		}
	})
	ask(page, "GET", "/")
	ask(page, "GET", "/")
	// Output:
	// GET / 200 with a fresh preview
	// GET / 200 with yesterday's preview
}

func ExampleOutcomeFrom() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(5)), Key: keyfuncs.Address(keyfuncs.Peer)},
		},
		OutcomeInContext: true,
	})
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if outcome, ok := nethttp.OutcomeFrom(r.Context()); ok {
			fmt.Fprintf(w, "%d left today", outcome.At(0).Remaining)
		}
	})
	ask(limiter.Handler(page), "GET", "/")
	// Output: GET / 200 4 left today
}

// One request may wait. The next one is refused.
func ExampleConfig_maxWaiting() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name: "evenly", Limit: limits.LeakyQueue(limits.PerDay(1), 3),
			Key: keyfuncs.Constant[*http.Request]("everybody"),
		}},
		MaxWaiting: 1,
		Denied: func(w http.ResponseWriter, r *http.Request, o core.Outcome) {
			w.WriteHeader(o.Status())
			fmt.Fprint(w, errors.Is(o.Err(), core.ErrQueueFull))
		},
	})
	handler := limiter.Handler(hi)
	ask(handler, "GET", "/") // goes on at once

	ctx, leave := context.WithCancel(context.Background())
	answers := make(chan *httptest.ResponseRecorder, 2)
	for range 2 { // one of these waits until it leaves, the other is refused
		go func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
			answers <- w
		}()
	}
	refused := <-answers
	leave()
	<-answers
	fmt.Println(refused.Code, refused.Body)
	// Output:
	// GET / 200 hi
	// 503 true
}

// Telegram's libraries read description and parameters; SDKs of other APIs read message and error.
func ExampleConfig_bots() {
	limiter := nethttp.MustNew(nethttp.Config{
		Rules: []nethttp.Rule{{
			Name:  "per-chat",
			Limit: limits.TokenBucket(limits.PerMinute(20), 1),
			Key:   func(r *http.Request) (string, error) { return r.URL.Query().Get("chat_id"), nil },
		}},
		Backend: memory.MustNew(memory.Options{Clock: func() time.Time { return time.Unix(0, 0) }}),
		Headers: headers.Options{Body: headers.Bots},
	})
	handler := limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/sendMessage?chat_id=7", nil))
		var denial struct {
			OK          bool
			Code        string
			ErrorCode   int `json:"error_code"`
			Description string
			Parameters  struct {
				RetryAfter int `json:"retry_after"`
			}
		}
		if json.Unmarshal(w.Body.Bytes(), &denial) == nil {
			fmt.Printf("%+v\n", denial)
		}
	}
	// Output:
	// {OK:false Code:rate_limited ErrorCode:429 Description:Too many requests: retry in 3 seconds. Parameters:{RetryAfter:3}}
}
