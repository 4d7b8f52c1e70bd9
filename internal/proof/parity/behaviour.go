package parity

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// runBehaviour tests how a limiter works together with the rest of a server.
func runBehaviour[R any](t *testing.T, a Adapter[R]) {
	for _, b := range []struct {
		name  string
		test  func(*testing.T, Adapter[R])
		needs Need
	}{
		{"a WebSocket counts once, before its upgrade", testUpgrade[R], ""},
		{"a response streams", testStreaming[R], ""},
		{"HTTP/2 works unchanged", testHTTP2[R], HTTP2},
		{"a call of gRPC is answered so that its client knows why", testGRPC[R], HTTP2},
		{"a call of gRPC-Web is answered so, too", testWebGRPC[R], ""},
		{"a call of gRPC that is shed is told so", testShedGRPC[R], HTTP2},
		{"the controller of the response reaches the connection", testController[R], ""},
		{"the body of a denied upload is read before the answer", testUpload[R], HTTP2},
		{"a panic is answered by the recoverer outside", testPanic[R](Outside), ""},
		{"a panic is answered by the recoverer inside", testPanic[R](Inside), ""},
		{"an aborted response stays aborted", testAbort[R], Aborts},
		{"a client that leaves the queue is not served and its slot stays spent", testLeaving[R], SeesLeaving},
		{"a queue that is full answers 503", testFullQueue[R](false), ""},
		{"a queue that is full answers in the application's way", testFullQueue[R](true), ""},
		{"a server that runs out of time in the queue says so", testDeadline[R], ""},
		{"a caller that has left is not served and pays nothing", testLeft[R], ""},
		{"concurrent requests get what the limit allows", testConcurrency[R], ""},
		{"fields are those of the request, whoever answers", testOthersAnswer[R], ""},
		{"an answer that caches may store has no fields", testStorable[R], ""},
		{"one limiter twice in a request charges once", testTwice[R], ""},
		{"counters see what is decided and what passes", testCounts[R], ""},
		{"why a rule cannot decide is logged", testUndecided[R], ""},
		{"the outcome in the context is that of the innermost limiter", testInnermost[R], ""},
		{"mistakes are found at set-up", testSetUp[R], ""},
		{"keys that cannot work are nil", testNilKeys[R], ""},
		{"a limiter may leave the answer to the handler", testDecide[R], ""},
		{"an address that was written over the peer's is nobody's", testOverwritten[R], ""},
	} {
		t.Run(b.name, func(t *testing.T) {
			a.skipWithout(t, b.needs)
			b.test(t, a)
		})
	}
	runEnds(t, a)
	runShed(t, a)
	runChanges(t, a)
}

// everybody returns a limiter of one rule with one key for all requests.
func everybody[R any](limit limits.Limit) *Config[R] {
	rule := core.Rule[R]{Name: "everybody", Limit: limit, Key: keyfuncs.Constant[R]("everybody")}
	return &Config[R]{Config: core.Config[R]{Rules: []core.Rule[R]{rule}, Backend: newLedger()}}
}

// serve starts a server for an application in which handler answers GET /extra behind
// limit.
func serve[R any](t *testing.T, a Adapter[R], limit *Config[R],
	handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(
		a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{"/extra": handler}}))
	t.Cleanup(server.Close)
	return server
}

func get(t *testing.T, server *httptest.Server, path string) *http.Response {
	t.Helper()
	response, err := server.Client().Get(server.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func wantStatus(t *testing.T, r *http.Response, want int) {
	t.Helper()
	if r.StatusCode != want {
		t.Errorf("%s, want %d; fields %v", r.Status, want, r.Header)
	}
}

// A handler may say so by any field, and need not write anything: the server then answers 200.
func testStorable[R any](t *testing.T, a Adapter[R]) {
	var fields http.Header
	writes := false
	start := func(options headers.Options) *httptest.Server {
		limit := everybody[R](limits.FixedWindow(limits.PerDay(100)))
		limit.Headers = options
		return serve(t, a, limit, func(w http.ResponseWriter, _ *http.Request) {
			maps.Copy(w.Header(), fields)
			if writes {
				io.WriteString(w, "hello")
			}
		})
	}
	server := start(headers.Options{NotOnStorable: true})
	others := start(headers.Options{NotOnRedirects: true}) // that waits for the status, too
	for _, c := range []struct {
		name, value string
		storable    bool
	}{
		{"Cache-Control", "public", true},
		{"Cache-Control", "private, max-age=60", false},
		{"Expires", "Fri, 01 Jan 2100 00:00:00 GMT", true},
		{"Expires", "0", false},
		{"X-Accel-Expires", "60", true},
		{"X-Accel-Expires", "0", false},
	} {
		for _, writes = range []bool{true, false} {
			fields = http.Header{c.name: {c.value}}
			for server, bare := range map[*httptest.Server]bool{server: c.storable, others: false} {
				response := get(t, server, "/extra")
				wantStatus(t, response, http.StatusOK)
				if got := len(response.Header["Ratelimit"]) == 0; got != bare {
					t.Errorf("%s: %s, something written: %t: fields %v", c.name, c.value, writes, response.Header)
				}
			}
		}
	}
}

func testConcurrency[R any](t *testing.T, a Adapter[R]) {
	server := serve(t, a, everybody[R](limits.SlidingWindow(limits.PerDay(50))),
		func(w http.ResponseWriter, _ *http.Request) {})
	var allowed, denied atomic.Int32
	done := make(chan error)
	for range 8 {
		go func() {
			var err error
			for range 20 {
				var response *http.Response
				if response, err = server.Client().Get(server.URL + "/extra"); err != nil {
					break
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
				switch response.StatusCode {
				case http.StatusOK:
					allowed.Add(1)
				case http.StatusTooManyRequests:
					denied.Add(1)
				default:
					err = fmt.Errorf("answered %s", response.Status)
				}
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if allowed.Load() != 50 || denied.Load() != 110 {
		t.Errorf("%d allowed, %d denied of 160, want 50", allowed.Load(), denied.Load())
	}
}

// testOverwritten sends requests whose RemoteAddr outer middleware has overwritten, as chi's RealIP
// does.
func testOverwritten[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](limits.FixedWindow(limits.PerDay(3)))
	limit.Rules[0].Key = a.Lift(keyfuncs.Address(keyfuncs.Peer))
	handler := a.Serve(t, App[R]{Site: limit})
	for _, c := range []struct {
		remote string
		want   int
	}{
		{"198.51.100.1", http.StatusServiceUnavailable},
		{"198.51.100.2", http.StatusServiceUnavailable},
		{"2001:db8::1", http.StatusServiceUnavailable},
		{"198.51.100.1:80", http.StatusOK},
		{"[2001:db8::1]:80", http.StatusOK},
	} {
		r := httptest.NewRequest("GET", "/hello", nil)
		r.RemoteAddr = c.remote
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		wantStatus(t, w.Result(), c.want)
	}
}
