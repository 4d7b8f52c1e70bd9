package parity

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
)

// behaviours are tests of how a limiter gets along with the rest of a server.
func runBehaviour[R any](t *testing.T, a Adapter[R]) {
	for _, b := range []struct {
		name string
		test func(*testing.T, Adapter[R])
	}{
		{"a WebSocket counts once, before its upgrade", testUpgrade[R]},
		{"a response streams", testStreaming[R]},
		{"HTTP/2 works unchanged", testHTTP2[R]},
		{"the controller of the response reaches the connection", testController[R]},
		{"a panic is answered by the recoverer outside", testPanic[R](Outside)},
		{"a panic is answered by the recoverer inside", testPanic[R](Inside)},
		{"an aborted response stays aborted", testAbort[R]},
		{"a client that leaves the queue is not served and its slot stays spent", testLeaving[R]},
		{"a queue that is full answers 503", testFullQueue[R](false)},
		{"a queue that is full answers in the application's way", testFullQueue[R](true)},
		{"a server that runs out of time in the queue says so", testDeadline[R]},
		{"a caller that has left is not served and pays nothing", testLeft[R]},
		{"concurrent requests get what the limit allows", testConcurrency[R]},
		{"an address that was written over the peer's is nobody's", testOverwritten[R]},
	} {
		t.Run(b.name, func(t *testing.T) { b.test(t, a) })
	}
}

// everybody is a limit for all requests together.
func everybody[R any](limit core.Limit) *Config[R] {
	return &Config[R]{Config: core.Config[R]{
		Rules:   []core.Rule[R]{{Name: "everybody", Limit: limit, Key: keyfuncs.Constant[R]("everybody")}},
		Backend: newLedger(),
	}}
}

// serve starts a server for an application whose GET /extra is handler, behind
// limit.
func serve[R any](t *testing.T, a Adapter[R], limit *Config[R], handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{"/extra": handler}}))
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

// testUpgrade speaks the handshake of RFC 6455 and then sends lines.
func testUpgrade[R any](t *testing.T, a Adapter[R]) {
	server := serve(t, a, everybody[R](core.FixedWindow(core.PerDay(1))), func(w http.ResponseWriter, r *http.Request) {
		if _, ok := w.(http.Hijacker); !ok {
			t.Errorf("%T is not an http.Hijacker", w)
			return
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
		rw.Flush()
		line, _ := rw.ReadString('\n')
		rw.WriteString("echo " + line)
		rw.Flush()
	})
	upgrade := func() (*http.Response, string) {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		io.WriteString(conn, "GET /extra HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
		r := bufio.NewReader(conn)
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusSwitchingProtocols {
			return response, ""
		}
		io.WriteString(conn, "hi\n")
		line, _ := r.ReadString('\n')
		return response, line
	}
	first, line := upgrade()
	if wantStatus(t, first, http.StatusSwitchingProtocols); line != "echo hi\n" {
		t.Errorf("through the connection came %q", line)
	}
	second, _ := upgrade()
	if wantStatus(t, second, http.StatusTooManyRequests); second.Header.Get("Retry-After") != "86400" {
		t.Errorf("fields %v", second.Header)
	}
}

func testStreaming[R any](t *testing.T, a Adapter[R]) {
	release := make(chan struct{})
	server := serve(t, a, everybody[R](core.FixedWindow(core.PerDay(1))), streaming(t, release))
	checkStream(t, server, release, 1)
}

func testHTTP2[R any](t *testing.T, a Adapter[R]) {
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(a.Serve(t, App[R]{
		Site:  everybody[R](core.FixedWindow(core.PerDay(1))),
		Extra: map[string]http.Handler{"/extra": streaming(t, release)},
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	checkStream(t, server, release, 2)
}

// streaming writes one line, and another when it is released.
func streaming(t *testing.T, release <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		flusher, ok := w.(http.Flusher)
		if !ok {
			t.Errorf("%T is not an http.Flusher", w)
			return
		}
		io.WriteString(w, "first\n")
		flusher.Flush()
		<-release
		io.WriteString(w, "second\n")
	}
}

func checkStream(t *testing.T, server *httptest.Server, release chan<- struct{}, major int) {
	t.Helper()
	response := get(t, server, "/extra")
	body := bufio.NewReader(response.Body)
	if line, err := body.ReadString('\n'); line != "first\n" || response.ProtoMajor != major {
		t.Errorf("HTTP/%d: %q, %v", response.ProtoMajor, line, err)
	}
	close(release)
	if line, err := body.ReadString('\n'); line != "second\n" {
		t.Errorf("then %q, %v", line, err)
	}
	if got := response.Header.Get("RateLimit"); got != `"everybody";r=0;t=86400` {
		t.Errorf("RateLimit %s", got)
	}
	denied := get(t, server, "/extra")
	if wantStatus(t, denied, http.StatusTooManyRequests); denied.Header.Get("Retry-After") != "86400" || denied.ProtoMajor != major {
		t.Errorf("HTTP/%d, fields %v", denied.ProtoMajor, denied.Header)
	}
}

// testController expects what the framework does without a limiter: echo before
// 4.11 hides the connection.
func testController[R any](t *testing.T, a Adapter[R]) {
	setDeadline := func(site *Config[R]) (err error) {
		server := serve(t, a, site, func(w http.ResponseWriter, r *http.Request) {
			err = http.NewResponseController(w).SetWriteDeadline(time.Time{})
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Errorf("Flush: %v", err)
			}
		})
		wantStatus(t, get(t, server, "/extra"), http.StatusOK)
		return err
	}
	bare := setDeadline(nil)
	if err := setDeadline(everybody[R](core.FixedWindow(core.PerDay(9)))); fmt.Sprint(err) != fmt.Sprint(bare) {
		t.Errorf("SetWriteDeadline: %v, and %v without a limiter", err, bare)
	}
}

// testPanic expects that the request was decided first, so that a handler that
// panics does not make requests free.
func testPanic[R any](where Recover) func(*testing.T, Adapter[R]) {
	return func(t *testing.T, a Adapter[R]) {
		server := httptest.NewServer(a.Serve(t, App[R]{
			Site:    everybody[R](core.FixedWindow(core.PerDay(1))),
			Extra:   map[string]http.Handler{"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") })},
			Recover: where,
		}))
		defer server.Close()
		first := get(t, server, "/extra")
		if wantStatus(t, first, http.StatusInternalServerError); first.Header.Get("RateLimit") != `"everybody";r=0;t=86400` {
			t.Errorf("fields %v", first.Header)
		}
		wantStatus(t, get(t, server, "/extra"), http.StatusTooManyRequests)
	}
}

func testAbort[R any](t *testing.T, a Adapter[R]) {
	server := serve(t, a, everybody[R](core.FixedWindow(core.PerDay(9))), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if response, err := server.Client().Get(server.URL + "/extra"); err == nil {
		response.Body.Close()
		t.Errorf("answered %s, want no answer", response.Status)
	}
}

// testLeaving has a client leave when it is known to be in the queue.
func testLeaving[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](core.LeakyQueue(core.PerDay(1), 3))
	decided := make(chan core.Outcome, 2)
	limit.Observe = func(_ context.Context, _ R, o core.Outcome) { decided <- o }
	observed := func() (o core.Outcome) {
		select {
		case o = <-decided:
		case <-time.After(30 * time.Second): // only if it never comes
			t.Error("the limiter did not call Observe")
		}
		return o
	}
	var called atomic.Int32
	ended := make(chan struct{}, 2)
	app := a.Serve(t, App[R]{Site: limit, Extra: map[string]http.Handler{
		"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }),
	}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.ServeHTTP(w, r)
		ended <- struct{}{}
	}))
	defer server.Close()

	wantStatus(t, get(t, server, "/extra"), http.StatusOK)
	observed()
	<-ended
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		if o := observed(); o.Delay() != 24*time.Hour {
			t.Errorf("delay %v", o.Delay())
		}
		leave()
	}()
	r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/extra", nil)
	if response, err := server.Client().Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v, want to have left", response, err)
	}
	<-ended
	if called.Load() != 1 {
		t.Errorf("%d requests were served, want 1", called.Load())
	}
	var b strings.Builder
	if limit.Backend.(*ledger).write(&b); b.String() != "= everybody: 1 of 3\n" {
		t.Errorf("left: %s", b.String())
	}
}

// testFullQueue has two requests ask for one place, of which one gets it.
func testFullQueue[R any](sorry bool) func(*testing.T, Adapter[R]) {
	return func(t *testing.T, a Adapter[R]) {
		limit := everybody[R](core.LeakyQueue(core.PerDay(1), 9))
		limit.MaxWaiting, limit.Sorry = 1, sorry
		var called atomic.Int32
		server := serve(t, a, limit, func(http.ResponseWriter, *http.Request) { called.Add(1) })
		wantStatus(t, get(t, server, "/extra"), http.StatusOK)

		type answer struct {
			*http.Response
			body string
		}
		answers := make(chan *answer, 2)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range 2 {
			go func() {
				r, _ := http.NewRequestWithContext(ctx, "GET", server.URL+"/extra", nil)
				response, err := server.Client().Do(r)
				if err != nil {
					answers <- nil
					return
				}
				defer response.Body.Close()
				body, _ := io.ReadAll(response.Body)
				answers <- &answer{response, string(body)}
			}()
		}
		refused := <-answers
		leave()
		if waiting := <-answers; refused == nil || waiting != nil || called.Load() != 1 {
			t.Fatalf("answers %v and %v, %d served: want one answer, and one request in the queue until it leaves", refused, waiting, called.Load())
		}
		want, body := http.StatusServiceUnavailable, "The service cannot decide on this request right now: retry in 1 second."
		if sorry {
			body = "sorry, unavailable by everybody" // as Sorry has it
		}
		wantStatus(t, refused.Response, want)
		if h := refused.Header; h.Get("Retry-After") != "1" || h.Get("RateLimit") != "" || h.Get("Cache-Control") != "no-store" || !strings.Contains(refused.body, body) {
			t.Errorf("fields %v, content %q", h, refused.body)
		}
		var left strings.Builder
		if limit.Backend.(*ledger).write(&left); left.String() != "= everybody: 6 of 9\n" {
			t.Errorf("left: %s, want the slots spent", &left)
		}
	}
}

// testDeadline has a request wait for a day in a server that gives it no time.
func testDeadline[R any](t *testing.T, a Adapter[R]) {
	var called atomic.Int32
	app := a.Serve(t, App[R]{
		Site:  everybody[R](core.LeakyQueue(core.PerDay(1), 3)),
		Extra: map[string]http.Handler{"/extra": http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) })},
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if called.Load() > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), time.Millisecond)
			defer cancel()
			r = r.WithContext(ctx)
		}
		app.ServeHTTP(w, r)
	}))
	defer server.Close()
	wantStatus(t, get(t, server, "/extra"), http.StatusOK)
	late := get(t, server, "/extra")
	wantStatus(t, late, http.StatusServiceUnavailable)
	if late.Header.Get("Retry-After") != "1" || late.Header.Get("Cache-Control") != "no-store" || called.Load() != 1 {
		t.Errorf("fields %v, %d requests served", late.Header, called.Load())
	}
}

func testLeft[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](core.FixedWindow(core.PerDay(1)))
	handler := a.Serve(t, App[R]{Site: limit})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/hello", nil))
	if len(w.Header()) != 0 || w.Body.Len() != 0 {
		t.Errorf("fields %v, content %q: want nothing", w.Header(), w.Body)
	}
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/hello", nil))
	wantStatus(t, w.Result(), http.StatusOK)
}

func testConcurrency[R any](t *testing.T, a Adapter[R]) {
	server := serve(t, a, everybody[R](core.SlidingWindow(core.PerDay(50))), func(w http.ResponseWriter, _ *http.Request) {})
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

// testOverwritten has middleware outside do as chi's RealIP does.
func testOverwritten[R any](t *testing.T, a Adapter[R]) {
	limit := everybody[R](core.FixedWindow(core.PerDay(3)))
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
