package parity

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
)

// Sequential requests, and requests whose handler does not return.

// sequentialRequests is how many requests a sequential client sends.
const sequentialRequests = 10_000

func testSequential[R any](http2 bool) func(*testing.T, Adapter[R]) {
	return func(t *testing.T, a Adapter[R]) {
		limit, _ := ending[R]()
		limit.Rules, limit.Observer = limit.Rules[:1], nil
		var connections atomic.Int32
		server := httptest.NewUnstartedServer(
			a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{
				"/extra": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					io.WriteString(w, "hello")
					w.(http.Flusher).Flush() // the client may have all of the body before the end
				}),
			}}))
		server.Config.ConnState = newConnections(&connections)
		if http2 {
			server.EnableHTTP2 = true
			server.StartTLS()
		} else {
			server.Start()
		}
		t.Cleanup(server.Close)
		requests := testrun.Sized(sequentialRequests/20, sequentialRequests)
		ask := func() (*http.Response, error) { return server.Client().Get(server.URL + "/extra") }
		if !http2 {
			ask = onOneConnection(t, server.URL+"/extra")
		}
		for i := range requests {
			response, err := ask()
			if err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if response.StatusCode != http.StatusOK || (response.ProtoMajor == 2) != http2 {
				t.Fatalf("request %d: HTTP/%d, %s", i, response.ProtoMajor, response.Status)
			}
		}
		if n := connections.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	}
}

// onOneConnection returns a client that sends every request on one connection. The client of
// net/http opens another if its own goroutines run late.
func onOneConnection(t *testing.T, url string) func() (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", request.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	answers := bufio.NewReader(conn)
	return func() (*http.Response, error) {
		if err := request.Write(conn); err != nil {
			return nil, err
		}
		return http.ReadResponse(answers, request)
	}
}

func testPanicEnds[R any](where Place) func(*testing.T, Adapter[R]) {
	return func(t *testing.T, a Adapter[R]) {
		limit, ends := ending[R]()
		server := httptest.NewServer(a.Serve(t, App[R]{
			Site: limit,
			Extra: map[string]http.Handler{
				"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })},
			Recover: where,
		}))
		t.Cleanup(server.Close)
		for range 3 {
			wantStatus(t, get(t, server, "/extra"), http.StatusInternalServerError)
			if where == Outside { // there is no answer yet when the panic passes the limiter
				ends.wantEnd(t, core.Result{Panicked: true})
				continue
			}
			got := next(t, ends.results)
			if got.Panicked || got.Status != http.StatusInternalServerError &&
				!(a.ErrorsTravel && got.Status == 0) {
				t.Errorf("ended with %+v", got)
			}
			next(t, ends.settlements)
			next(t, ends.settlements)
		}
		ends.wantNoEnd(t)
	}
}

// testDeniedPanics fills the queue, so that Denied, which panics, answers an allowed request.
func testDeniedPanics[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	limit.Rules[0].Limit = limits.Concurrent(9)
	limit.Rules = append(limit.Rules,
		core.Rule[R]{Name: "queue", Limit: limits.LeakyQueue(limits.PerDay(1), 9),
			Key: limit.Rules[0].Key})
	limit.MaxWaiting, limit.Boom = 1, true
	server := httptest.NewServer(a.Serve(t, App[R]{Site: limit, Recover: Outside}))
	t.Cleanup(server.Close)
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 5})

	refused, leave := twoInQueue(t, server)
	wantStatus(t, refused, http.StatusInternalServerError)
	ends.wantEnd(t, core.Result{Panicked: true})
	leave()
	ends.wantEnd(t, core.Result{Status: http.StatusServiceUnavailable, Left: true})
}

// testAbortedProxy tests a reverse proxy whose server breaks off in the middle of its answer. The
// proxy then panics with http.ErrAbortHandler.
func testAbortedProxy[R any](t *testing.T, a Adapter[R]) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "1234567890")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(behind.Close)
	to, _ := url.Parse(behind.URL)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1, // so that the client has a status and a part of the body
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	limit, ends := ending[R]()
	server := serve(t, a, limit, proxy.ServeHTTP)
	for range 3 {
		response := get(t, server, "/extra")
		wantStatus(t, response, http.StatusOK)
		if body, err := io.ReadAll(response.Body); err == nil {
			t.Errorf("the whole body arrived: %q", body)
		}
		ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 10, Panicked: true})
	}
}

// testGoexit tests a handler that calls runtime.Goexit, as t.FailNow does.
func testGoexit[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	app := a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{
		"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { runtime.Goexit() }),
	}})
	done := make(chan bool)
	go func() {
		defer close(done)
		app.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/extra", nil))
	}()
	next(t, done)
	ends.wantEnd(t, core.Result{Panicked: true})
}
