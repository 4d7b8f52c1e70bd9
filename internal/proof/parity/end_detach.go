package parity

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// Requests that last longer or shorter than their handler, and their spending.

// newConnections counts the connections of a server.
func newConnections(n *atomic.Int32) func(net.Conn, http.ConnState) {
	return func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			n.Add(1)
		}
	}
}

// serveReporting starts a server for an application with the limiter site. The channel reports each
// request of /extra when the application has returned.
func serveReporting[R any](t *testing.T, a Adapter[R], site *Config[R],
	handler http.HandlerFunc) (*httptest.Server, <-chan bool) {
	t.Helper()
	app := a.Serve(t, App[R]{Site: site, Extra: map[string]http.Handler{"/extra": handler}})
	returned := make(chan bool, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.ServeHTTP(w, r)
		if r.URL.Path == "/extra" {
			returned <- true
		}
	}))
	t.Cleanup(server.Close)
	return server, returned
}

const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: " +
	"Upgrade\r\nUpgrade: lines\r\n\r\n"

// upgrade opens a connection that carries lines.
func upgrade(t *testing.T, server *httptest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, "GET /extra HTTP/1.1\r\nHost: x\r\nConnection: "+
		"Upgrade\r\nUpgrade: lines\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, response, http.StatusSwitchingProtocols)
	return conn
}

func testHijack[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	server, _ := serveReporting(t, a, limit, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString(switching)
		rw.Flush()
		rw.ReadString('\n')
	})
	conn := upgrade(t, server)
	wantStatus(t, get(t, server, "/hello"), http.StatusTooManyRequests)
	ends.wantNoEnd(t)
	io.WriteString(conn, "done\n")
	want := core.Result{Status: http.StatusSwitchingProtocols}
	if a.ErrorsTravel {
		want.Status = http.StatusOK
	}
	ends.wantEnd(t, want)
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
}

func testDetachedHijack[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	server, returned := serveReporting(t, a, limit, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		end, ok := nethttp.Detach(r.Context())
		if _, again := nethttp.Detach(r.Context()); !ok || again {
			t.Errorf("detached %v, again %v", ok, again)
			return
		}
		rw.WriteString(switching)
		rw.Flush()
		go func() {
			defer conn.Close()
			rw.ReadString('\n')
			nethttp.Spend(r.Context(), "tokens", 3)
			end(core.Result{Status: http.StatusSwitchingProtocols, Bytes: 7})
			end(core.Result{Status: http.StatusTeapot})
		}()
	})
	conn := upgrade(t, server)
	next(t, returned)
	wantStatus(t, get(t, server, "/hello"), http.StatusTooManyRequests)
	ends.wantNoEnd(t)
	io.WriteString(conn, "done\n")
	ends.wantEnd(t, core.Result{Status: http.StatusSwitchingProtocols, Bytes: 7})
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
}

// testEarlyEnd ends the request before its body is sent, from other goroutines.
func testEarlyEnd[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	release := make(chan bool)
	server, returned := serveReporting(t, a, limit, func(w http.ResponseWriter, r *http.Request) {
		end, ok := nethttp.Detach(r.Context())
		if !ok {
			t.Error("there was nothing to detach")
			return
		}
		io.WriteString(w, "first\n")
		done := make(chan bool)
		for range 2 {
			go func() {
				end(core.Result{Status: http.StatusOK})
				done <- true
			}()
		}
		w.(http.Flusher).Flush()
		<-done
		<-done
		if nethttp.Spend(r.Context(), "tokens", 1) {
			t.Error("a request that has ended spent something")
		}
		select {
		case <-release:
		case <-t.Context().Done(): // the test has failed
		}
		io.WriteString(w, "second\n")
	})
	slow := get(t, server, "/extra")
	ends.wantEnd(t, core.Result{Status: http.StatusOK})
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 5})
	close(release)
	if body, err := io.ReadAll(slow.Body); string(body) != "first\nsecond\n" {
		t.Errorf("the body was %q, %v", body, err)
	}
	next(t, returned)
	ends.wantNoEnd(t)
}

func testSpend[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	server := serve(t, a, limit, func(w http.ResponseWriter, r *http.Request) {
		for _, n := range []int64{5, 0, 7, 4} {
			io.WriteString(w, "word ")
			w.(http.Flusher).Flush()
			if !nethttp.Spend(r.Context(), "tokens", n) {
				t.Errorf("%d tokens were not spent", n)
			}
		}
		if nethttp.Spend(r.Context(), "tokens", -1) || nethttp.Spend(r.Context(), "slots", 1) ||
			nethttp.Spend(r.Context(), "nobody", 1) {
			t.Error("spent what cannot be")
		}
	})
	if body, err := io.ReadAll(get(t, server, "/extra").Body); string(body) != "word word word word " {
		t.Errorf("the body was %q, %v", body, err)
	}
	want := core.Result{Status: http.StatusOK, Bytes: 20, Cost: 10, Spent: 16}
	if a.lacks(StreamSizes) {
		want.Bytes = 0
	}
	if got := next(t, ends.results); got != want {
		t.Errorf("ended with %+v, want %+v", got, want)
	}
	for range 2 {
		if s := next(t, ends.settlements); s.Rule == "tokens" && (s.Taken != 10 || s.Final != 16) {
			t.Errorf("settled %+v", s)
		}
	}
}

func testClientLeaves[R any](t *testing.T, a Adapter[R]) {
	limit, ends := ending[R]()
	ctx, leave := context.WithCancel(t.Context())
	server, returned := serveReporting(t, a, limit, func(_ http.ResponseWriter, r *http.Request) {
		leave()
		<-r.Context().Done()
	})
	r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/extra", nil)
	if response, err := server.Client().Do(r); err == nil {
		t.Errorf("answered %s", response.Status)
	}
	next(t, returned)
	ends.wantEnd(t, core.Result{Left: true})
}

// testStacked tests a limiter around a route inside one around the application.
func testStacked[R any](t *testing.T, a Adapter[R]) {
	site, outer := ending[R]()
	route, inner := ending[R]()
	app := App[R]{Site: site, Route: route, Extra: map[string]http.Handler{
		"/spends": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if !nethttp.Spend(r.Context(), "tokens", 3) {
				t.Error("nothing was spent")
			}
		}),
		"/detaches": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			end, ok := nethttp.Detach(r.Context())
			if !ok {
				t.Error("nothing was detached")
				return
			}
			end(core.Result{Status: http.StatusAccepted})
		}),
	}}
	server := httptest.NewServer(a.Serve(t, app))
	t.Cleanup(server.Close)
	get(t, server, "/spends")
	for _, ends := range []*endings{outer, inner} {
		if got := next(t, ends.results); got != (core.Result{Status: http.StatusOK, Cost: 10, Spent: 3}) {
			t.Errorf("ended with %+v", got)
		}
		next(t, ends.settlements)
		next(t, ends.settlements)
	}
	get(t, server, "/detaches")
	for _, ends := range []*endings{outer, inner} {
		ends.wantEnd(t, core.Result{Status: http.StatusAccepted})
	}
	// the inner limiter learns the status through the outer one
	wantStatus(t, get(t, server, "/users/7"), http.StatusOK)
	for _, ends := range []*endings{outer, inner} {
		ends.wantEnd(t, core.Result{Status: http.StatusOK, Bytes: 6})
	}
}

func testNothingAttached[R any](t *testing.T, a Adapter[R]) {
	server := serve(t, a, everybody[R](limits.FixedWindow(limits.PerDay(9))),
		func(_ http.ResponseWriter, r *http.Request) {
			end, ok := nethttp.Detach(r.Context())
			if ok || end != nil || nethttp.Spend(r.Context(), "everybody", 1) {
				t.Error("a request without an end was detached, or spent something")
			}
		})
	wantStatus(t, get(t, server, "/extra"), http.StatusOK)
}
