package parity

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// runEnds tests that a request ends once, and with the right result.
func runEnds[R any](t *testing.T, a Adapter[R]) {
	for _, b := range []struct {
		name  string
		test  func(*testing.T, Adapter[R])
		needs Need
	}{
		{"a sequential client never meets its last request, HTTP/1.1", testSequential[R](false), ""},
		{"a sequential client never meets its last request, HTTP/2", testSequential[R](true), HTTP2},
		{"a panic ends the request, recovered outside", testPanicEnds[R](Outside), ""},
		{"a panic ends the request, recovered inside", testPanicEnds[R](Inside), ""},
		{"a panic of Denied ends the request", testDeniedPanics[R], ""},
		{"a proxy that aborts its copy ends the request", testAbortedProxy[R], Aborts},
		{"a handler that exits its goroutine ends the request", testGoexit[R], OneGoroutine},
		{"a hijacked connection is held until its handler returns", testHijack[R], ""},
		{"a hijacked connection that is detached is held until its end", testDetachedHijack[R], ""},
		{"a stream spends again and again", testSpend[R], ""},
		{"a client that leaves is known", testClientLeaves[R], SeesLeaving},
		{"the status of an answer", testStatuses[R], ""},
		{"the final cost by status", testFinalCosts[R], ""},
		{"a request that leaves the queue ends", testQueueLeaverEnds[R], SeesLeaving},
		{"a request that finds the queue full ends", testFullQueueEnds[R], ""},
		{"a request that the deadline ends in the queue", testDeadlineEnds[R], ""},
		{"a late answer inside the framework's time-out", testLateAnswer[R](Outside), ""},
		{"a late answer around the framework's time-out", testLateAnswer[R](Inside), ""},
		{"a request that the framework's time-out ends in the queue", testTimeOutInQueue[R], ""},
		{"a request ends before its slow body", testEarlyEnd[R], ""},
		{"stacked limiters end and spend together", testStacked[R], ""},
		{"a limiter without ends attaches nothing", testNothingAttached[R], ""},
	} {
		t.Run(b.name, func(t *testing.T) {
			a.skipWithout(t, b.needs)
			b.test(t, a)
		})
	}
}

// endings records the ends that the limiter under test reports.
type endings struct {
	results     chan core.Result // the results that the rule tokens gets
	settlements chan limits.Settlement
}

// ending returns a limiter with the rule slots (one request at once) and the rule tokens (an
// estimate of 10 units).
func ending[R any]() (*Config[R], *endings) {
	e := &endings{make(chan core.Result, 64), make(chan limits.Settlement, 64)}
	key := keyfuncs.Constant[R]("everybody")
	return &Config[R]{Config: core.Config[R]{
		Rules: []core.Rule[R]{
			{Name: "slots", Limit: limits.Concurrent(1), Key: key},
			{
				Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1_000_000)), Key: key,
				Cost: func(R) int64 { return 10 },
				FinalCost: func(r core.Result) int64 {
					e.results <- r
					return core.SpentCost(r)
				},
			},
		},
		Observer: core.ObserverFuncs[R]{OnEnd: func(s limits.Settlement) { e.settlements <- s }},
	}}, e
}

// next receives from values. It gives up after half a minute, longer than any test should take.
func next[T any](t *testing.T, values <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-values:
	case <-time.After(30 * time.Second):
		t.Fatalf("no %T arrived", v)
	}
	return v
}

// wantEnd checks that one request has ended with want, without Cost and Spent, and that its slot is
// free. Bytes below 0 match any number.
func (e *endings) wantEnd(t *testing.T, want core.Result) {
	t.Helper()
	got := next(t, e.results)
	got.Cost, got.Spent = 0, 0
	if want.Bytes < 0 {
		want.Bytes = got.Bytes
	}
	if got != want {
		t.Errorf("the request ended with %+v, want %+v", got, want)
	}
	first, second := next(t, e.settlements), next(t, e.settlements)
	if first.Rule == "tokens" {
		first, second = second, first
	}
	if first.Rule != "slots" || first.Returned != 1 || second.Rule != "tokens" || second.Taken != 10 {
		t.Errorf("settled were %+v and %+v", first, second)
	}
	e.wantNoEnd(t)
}

// wantNoEnd checks that no further request has ended.
func (e *endings) wantNoEnd(t *testing.T) {
	t.Helper()
	if len(e.results) > 0 || len(e.settlements) > 0 {
		t.Errorf("%d further results, %d settlements", len(e.results), len(e.settlements))
	}
}

// recorder is a backend that decides by a Memory and records the endings it gets. Since it is no
// Memory, limiters send endings from another goroutine.
type recorder struct {
	*memory.Memory
	mu      sync.Mutex
	endings []backends.Ending
}

func (r *recorder) Settle(ctx context.Context, endings []backends.Ending,
	out []limits.Settlement) error {
	r.mu.Lock()
	r.endings = append(r.endings, slices.Clone(endings)...)
	r.mu.Unlock()
	return r.Memory.Settle(ctx, endings, out)
}

// testFinalCosts tests a rule that counts failures only.
func testFinalCosts[R any](t *testing.T, a Adapter[R]) {
	backend := &recorder{Memory: memory.MustNew(memory.Options{MaxKeys: 1000})}
	settled := make(chan limits.Settlement, 1)
	limit := &Config[R]{Config: core.Config[R]{
		Rules: []core.Rule[R]{{
			Name: "failures", Limit: limits.FixedWindow(limits.PerDay(1000)),
			Key:       keyfuncs.Constant[R]("everybody"),
			Cost:      func(R) int64 { return 2 },
			FinalCost: core.OnStatus(func(status int) bool { return status >= 400 }),
		}},
		Backend:  backend,
		Observer: core.ObserverFuncs[R]{OnEnd: func(s limits.Settlement) { settled <- s }},
	}}
	server := serve(t, a, limit, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.WriteHeader(status)
	})
	server.Client().CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	returned := 0
	for _, path := range []string{
		"/extra?status=200", "/extra?status=204", "/extra?status=302", "/extra?status=401",
		"/extra?status=404",
		"/extra?status=500", "/extra?status=503", "/hello", "/nowhere", "/conflict", "/breaks",
	} {
		response := get(t, server, path)
		want := int64(2)
		if response.StatusCode < 400 {
			want = 0
			returned++
		}
		if s := next(t, settled); s.Rule != "failures" || s.Taken != 2 || s.Final != want ||
			s.Err != nil {
			t.Errorf("GET %s: %s: settled %+v, want a final cost of %d", path, response.Status, s, want)
		}
	}
	backend.mu.Lock()
	defer backend.mu.Unlock()
	for _, e := range backend.endings {
		if e.Scope != "failures" || e.Key != "everybody" || e.Taken != 2 || e.Final != 0 {
			t.Errorf("the backend was to end %+v", e)
		}
	}
	if len(backend.endings) != returned {
		t.Errorf("%d endings, want %d: only what differs from its estimate has one", len(backend.endings),
			returned)
	}
}

// testStatuses checks that the result has the status and the size that the client saw.
func testStatuses[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	app := a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{
		"/nothing": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		"/early": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</style.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, "made")
		}),
		"/twice": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "12345")
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
		}),
	}})
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	for _, path := range []string{"/nothing", "/early", "/twice", "/hello", "/nowhere", "/conflict"} {
		if path == "/early" && a.lacks(Informational) {
			continue
		}
		response := get(t, server, path)
		want := core.Result{Status: response.StatusCode, Bytes: -1}
		switch path {
		case "/nothing":
			want.Bytes = 0
		case "/twice", "/hello":
			want.Bytes = 5
		case "/early":
			want.Bytes = 4
		}
		if path == "/twice" && a.lacks(StreamSizes) {
			want.Bytes = 0
		}
		ends.wantEnd(t, want)
	}
	broken := get(t, server, "/breaks")
	wantStatus(t, broken, http.StatusInternalServerError)
	want := core.Result{Status: http.StatusInternalServerError, Bytes: broken.ContentLength}
	if a.ErrorsTravel {
		want.Status, want.Bytes = 0, 0
	}
	ends.wantEnd(t, want)
}
