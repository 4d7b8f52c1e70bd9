package parity

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/ground/shedlimit"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// runShed tests how a shedder works in a framework.
func runShed[R any](t *testing.T, a Adapter[R]) {
	for name, test := range map[string]func(*testing.T, Adapter[R]){
		"a request above the limit is answered 503 and asks no limiter": testShed[R],
		"the program answers requests that are shed itself":             testShedDenied[R],
		"however a request ends, it is in flight no more":               testShedEnds[R],
		"an answer that streams is in flight no more":                   testShedStreams[R],
		"a connection that is taken over is in flight no more":          testShedHijack[R],
		"a shedder in shadow lets all pass":                             testShedShadow[R],
		"what a limiter inside answers sheds nothing ahead":             testShedOwn[R],
	} {
		t.Run("shed: "+name, func(t *testing.T) { test(t, a) })
	}
}

// ends is an algorithm with a limit of 1 that counts how the requests of each route have
// ended.
type ends struct {
	mu      sync.Mutex
	byRoute map[string][2]int // completed and failed
}

func (e *ends) Update(sample shedlimit.Sample) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range sample.Routes {
		route := strings.NewReplacer("{id}", "ID", ":id", "ID", "GET ", "").Replace(r.Route)
		n := e.byRoute[route]
		e.byRoute[route] = [2]int{n[0] + r.Completed, n[1] + r.Failed}
	}
	return 1
}

func (e *ends) Window() (least, most time.Duration, completed int) { return 1, 1, 1 }

// watching returns a shedder whose algorithm is e.
func watching[R any](t *testing.T, e *ends) *shed.Shedder[R] {
	t.Helper()
	s, err := shedlimit.New(shed.Options[R]{}, e)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*shed.Shedder[R])
}

// shedding starts a server with a shedder in front of a limiter.
func shedding[R any](t *testing.T, a Adapter[R], options shed.Options[R],
	extra http.HandlerFunc) (*httptest.Server, *shed.Shedder[R]) {
	t.Helper()
	s, err := shed.New(options)
	if err != nil {
		t.Fatal(err)
	}
	return sheddingBy(t, a, s, extra), s
}

// sheddingBy starts a server with s in front of a limiter.
func sheddingBy[R any](t *testing.T, a Adapter[R], s *shed.Shedder[R], extra http.HandlerFunc) *httptest.Server {
	t.Helper()
	app := App[R]{Shed: s, Site: everybody[R](limits.FixedWindow(limits.PerDay(10_000))), Recover: Outside}
	if extra != nil {
		app.Extra = map[string]http.Handler{"/extra": extra}
	}
	server := httptest.NewServer(a.Serve(t, app))
	t.Cleanup(server.Close)
	return server
}

// busy returns a handler that answers when it may, and a channel that says it has begun.
func busy() (h http.HandlerFunc, begun chan struct{}, may chan struct{}) {
	begun, may = make(chan struct{}), make(chan struct{})
	return func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-may
		Hello(w)
	}, begun, may
}

func testShed[R any](t *testing.T, a Adapter[R]) {
	handler, begun, may := busy()
	server, s := shedding(t, a, shed.Options[R]{Limit: 1}, handler)
	first := make(chan *http.Response)
	go func() { first <- get(t, server, "/extra") }()
	<-begun
	second := get(t, server, "/hello")
	wantStatus(t, second, http.StatusServiceUnavailable)
	body, err := io.ReadAll(second.Body)
	if err != nil {
		t.Fatal(err)
	}
	if retry := second.Header.Get("Retry-After"); !slices.Contains([]string{"1", "2", "3", "4"}, retry) {
		t.Errorf("Retry-After %q", retry)
	}
	if second.Header.Get("Cache-Control") != "no-store" || second.Header.Get("RateLimit") != "" ||
		second.Header.Get("RateLimit-Policy") != "" {
		t.Errorf("fields %v", second.Header)
	}
	if !strings.Contains(string(body), "temporary-reduced-capacity") &&
		!strings.HasPrefix(second.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%s: %s", second.Header.Get("Content-Type"), body)
	}
	close(may)
	wantStatus(t, <-first, http.StatusOK)
	third := get(t, server, "/hello")
	if wantStatus(t, third, http.StatusOK); third.Header.Get("RateLimit") != `"everybody";r=9998;t=86400` {
		t.Errorf("the request that was shed has been counted by the limiter: %v", third.Header)
	}
	if state := s.State(); state.InFlight != 0 || state.Classes[0].Shed != 1 || state.Classes[0].Admitted != 2 {
		t.Errorf("%+v", state)
	}
}

// A client causes answers of 503 by requests that the limiter denies or cannot decide.
func testShedOwn[R any](t *testing.T, a Adapter[R]) {
	const asks = 60
	full := func() *Config[R] {
		c := everybody[R](limits.FixedWindow(limits.PerDay(1)))
		c.Rules[0].DenyAs503 = true
		return c
	}
	for what, c := range map[string]struct {
		site    *Config[R]
		answer  http.HandlerFunc // nil: Hello
		refuses bool
	}{
		"denied":    {site: full()},
		"undecided": {site: behindProxies[R](a.Lift)},
		"a service behind": {everybody[R](limits.FixedWindow(limits.PerDay(asks))),
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, true},
	} {
		s := shed.MustNew(shed.Options[R]{Limit: 100, Needs: func(R) string { return "all" }})
		app := App[R]{Shed: s, Site: c.site, Recover: Outside}
		if c.answer == nil {
			c.answer = func(w http.ResponseWriter, _ *http.Request) { Hello(w) }
		}
		app.Extra = map[string]http.Handler{"/extra": c.answer}
		server := httptest.NewServer(a.Serve(t, app))
		unavailable := 0
		for range asks {
			r, err := http.NewRequest("GET", server.URL+"/extra", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Forwarded-For", "203.0.113.7, unknown")
			response, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode == http.StatusServiceUnavailable {
				unavailable++
			}
		}
		server.Close()
		ahead := s.State().Classes[0].Ahead
		if unavailable < asks-1 || (ahead > 0) != c.refuses {
			t.Errorf("%s: of %d answers %d are 503, %d of them shed ahead; want all, and some ahead: %v",
				what, asks, unavailable, ahead, c.refuses)
		}
	}
}

func testShedDenied[R any](t *testing.T, a Adapter[R]) {
	handler, begun, may := busy()
	server, _ := shedding(t, a, shed.Options[R]{
		Limit: 1,
		Denied: func(w http.ResponseWriter, _ R, e shed.Event) error {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "%d of %d in flight", e.InFlight, e.Limit)
			return nil
		},
	}, handler)
	first := make(chan *http.Response)
	go func() { first <- get(t, server, "/extra") }()
	<-begun
	second := get(t, server, "/hello")
	wantStatus(t, second, http.StatusServiceUnavailable)
	if body, err := io.ReadAll(second.Body); err != nil || string(body) != "1 of 1 in flight" ||
		second.Header.Get("Retry-After") == "" {
		t.Errorf("%v %q, %v", second.Header, body, err)
	}
	close(may)
	wantStatus(t, <-first, http.StatusOK)
}

func testShedEnds[R any](t *testing.T, a Adapter[R]) {
	ends := ends{byRoute: make(map[string][2]int)}
	s := watching[R](t, &ends)
	server := sheddingBy(t, a, s, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "abort" {
			panic(http.ErrAbortHandler)
		}
		panic("boom")
	})
	// A client repeats a GET that broke off on a used connection. Go 1.27 uses one again after Close of
	// a body that was not read.
	server.Client().Transport.(*http.Transport).DisableKeepAlives = true
	abort := "/extra?abort"
	if a.lacks(Aborts) {
		abort = "/extra"
	}
	for _, path := range []string{"/hello", "/users/7", "/extra", "/conflict", "/breaks", "/nowhere",
		abort, "/users/8", "/hello"} {
		if response, err := server.Client().Get(server.URL + path); err == nil {
			response.Body.Close()
		}
		waitFor(t, "nothing is in flight after "+path, func() bool { return s.State().InFlight == 0 })
	}
	want := map[string][2]int{"/users/ID": {2, 0}, "/extra": {0, 2}, "/conflict": {0, 1}, "/breaks": {0, 1}}
	waitFor(t, "a later request shows them to the algorithm", func() bool {
		wantStatus(t, get(t, server, "/hello"), http.StatusOK)
		ends.mu.Lock()
		defer ends.mu.Unlock()
		for route, n := range want {
			if ends.byRoute[route] != n {
				return false
			}
		}
		return true
	})
	if class := s.State().Classes[0]; class.Shed != 0 {
		t.Errorf("%+v", class)
	}
}

func testShedStreams[R any](t *testing.T, a Adapter[R]) {
	begun, may := make(chan struct{}), make(chan struct{})
	server, s := shedding(t, a, shed.Options[R]{Limit: 1}, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one")
		switch r.URL.RawQuery {
		case "controller":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		case "says":
			if _, ok := w.(interface{ Unwrap() http.ResponseWriter }); !ok { // that of older releases of echo 4
				w.(http.Flusher).Flush()
			} else if !shed.Stream(w) {
				t.Error("shed.Stream did not find the shedder")
			}
		default:
			w.(http.Flusher).Flush()
		}
		begun <- struct{}{}
		<-may
		io.WriteString(w, "two")
	})
	for _, path := range []string{"/extra", "/extra?controller", "/extra?says"} {
		first := make(chan string)
		go func() {
			body, _ := io.ReadAll(get(t, server, path).Body)
			first <- string(body)
		}()
		<-begun
		waitFor(t, path+" is a stream", func() bool { return s.State().InFlight == 0 && s.State().Streams == 1 })
		wantStatus(t, get(t, server, "/hello"), http.StatusOK)
		may <- struct{}{}
		if body := <-first; body != "onetwo" {
			t.Errorf("%s: %q", path, body)
		}
		waitFor(t, "no stream is left", func() bool { return s.State().Streams == 0 })
	}
}

func testShedHijack[R any](t *testing.T, a Adapter[R]) {
	begun, may := make(chan struct{}), make(chan struct{})
	server, s := shedding(t, a, shed.Options[R]{Limit: 1}, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		begun <- struct{}{}
		<-may
		rw.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		rw.Flush()
	})
	first := make(chan *http.Response)
	go func() { first <- get(t, server, "/extra") }()
	<-begun
	waitFor(t, "the connection is a stream", func() bool { return s.State().InFlight == 0 && s.State().Streams == 1 })
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	close(may)
	wantStatus(t, <-first, http.StatusOK)
	waitFor(t, "no stream is left", func() bool { return s.State().Streams == 0 })
}

func testShedShadow[R any](t *testing.T, a Adapter[R]) {
	handler, begun, may := busy()
	server, s := shedding(t, a, shed.Options[R]{Limit: 1, Mode: core.Shadow}, handler)
	first := make(chan *http.Response)
	go func() { first <- get(t, server, "/extra") }()
	<-begun
	wantStatus(t, get(t, server, "/hello"), http.StatusOK)
	close(may)
	wantStatus(t, <-first, http.StatusOK)
	waitFor(t, "nothing is in flight", func() bool { return s.State().InFlight+s.State().Shadowed == 0 })
	if class := s.State().Classes[0]; class.Shadowed != 1 || class.Shed != 0 {
		t.Errorf("%+v", class)
	}
}

// waitFor waits until so is true: a client has its answer before the handler has returned.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a minute later it is not so that %s", what)
		}
	}
}
