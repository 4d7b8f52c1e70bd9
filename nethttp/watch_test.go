package nethttp_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// watching returns a limiter that looks at the answers and hands their results to see.
func watching(see func(core.Result)) *nethttp.Limiter {
	return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1_000_000)),
		Key: keyfuncs.Constant[*http.Request]("everybody"),
		FinalCost: func(r core.Result) int64 {
			if see != nil {
				see(r)
			}
			return r.Cost
		},
	}}})
}

// abilities returns the optional interfaces that w has, and what an http.ResponseController says of it.
func abilities(w http.ResponseWriter) string {
	_, flushes := w.(http.Flusher)
	_, hijacks := w.(http.Hijacker)
	_, pushes := w.(http.Pusher)
	_, closes := w.(interface{ CloseNotify() <-chan bool })
	c := http.NewResponseController(w)
	return fmt.Sprint(
		"Flusher ", flushes, ", Hijacker ", hijacks, ", Pusher ", pushes, ", CloseNotifier ", closes,
		", read deadline: ", c.SetReadDeadline(time.Time{}), ", write deadline: ", c.SetWriteDeadline(time.Time{}),
		", full duplex: ", c.EnableFullDuplex(), ", flush: ", c.Flush(),
	)
}

func TestAWatchedWriterHasWhatTheServersOwnHas(t *testing.T) {
	for name, serve := range map[string]func(http.Handler){
		"HTTP/1":   func(h http.Handler) { parity.ServeOnce(t, h, false) },
		"HTTP/2":   func(h http.Handler) { parity.ServeOnce(t, h, true) },
		"recorder": func(h http.Handler) { h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)) },
		"a writer of a middleware": func(h http.Handler) {
			h.ServeHTTP(struct{ http.ResponseWriter }{&sink{http.Header{}}}, httptest.NewRequest("GET", "/", nil))
		},
	} {
		seen := make(chan string, 1) // the answer may arrive before its handler returns
		see := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { seen <- abilities(w) })
		serve(see)
		own := <-seen
		serve(watching(nil).Handler(watching(nil).Handler(see)))
		watched := <-seen
		if own == "" || watched != own {
			t.Errorf("%s: the watched writer:\n%s\nthe server's:\n%s", name, watched, own)
		}
	}
}

// What a handler copies by ReadFrom and WriteString arrives, whatever the writer inside can do.
func TestAWatchedWriterCopiesToAnyWriter(t *testing.T) {
	recorder := httptest.NewRecorder()
	plain := struct{ http.ResponseWriter }{recorder}
	watching(nil).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.(io.ReaderFrom).ReadFrom(strings.NewReader("abc"))
		w.(io.StringWriter).WriteString("hello")
	})).ServeHTTP(plain, httptest.NewRequest("GET", "/", nil))
	if got := recorder.Body.String(); got != "abchello" {
		t.Errorf("%q has arrived, want abchello", got)
	}
}

func TestAWriterIsWatchedOnlyForAFinalCost(t *testing.T) {
	limit := nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "slots", Limit: limits.Concurrent(1), Key: keyfuncs.Constant[*http.Request]("everybody"),
	}}})
	inner := &sink{http.Header{}}
	limit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if w != http.ResponseWriter(inner) {
			t.Errorf("the writer is a %T", w)
		}
	})).ServeHTTP(inner, httptest.NewRequest("GET", "/", nil))
}

func TestTheStatusOfAnAnswerIsWhatTheServerSends(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		bytes   int64
	}{
		{"nothing", func(http.ResponseWriter, *http.Request) {}, 0},
		{"an empty write", func(w http.ResponseWriter, _ *http.Request) { w.Write(nil) }, 0},
		{"early hints alone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103) }, 0},
		{"early hints, then a status", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(404)
		}, 0},
		{"two statuses", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); w.WriteHeader(200) }, 0},
		{"a status after the body", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "abc")
			w.WriteHeader(500)
		}, 3},
		{"a status after a flush", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(500)
		}, 0},
		{"a copy", func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, io.LimitReader(zeros{}, 100_000)) },
			100_000},
		{"a copy that fails at once", func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, io.MultiReader(failing{}))
			w.WriteHeader(502)
		}, 0},
		{"a file", func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("some text"))
		}, 9},
		{"a redirection", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/there", http.StatusFound)
		}, -1},
	} {
		results := make(chan core.Result, 1)
		server := httptest.NewUnstartedServer(watching(func(r core.Result) { results <- r }).Handler(c.handler))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.Start()
		server.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		response, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		got := <-results
		if c.bytes < 0 {
			c.bytes = int64(len(body))
		}
		if got.Status != response.StatusCode || got.Bytes != c.bytes || got.Bytes != int64(len(body)) {
			t.Errorf("%s: %+v, but the client got %s and %d bytes", c.name, got, response.Status, len(body))
		}
		server.Close()
	}
}

func TestTheControllerReachesTheConnectionThroughAWatchedWriter(t *testing.T) {
	server := httptest.NewServer(watching(nil).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c := http.NewResponseController(w)
		if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}), c.EnableFullDuplex(),
			c.Flush()); err != nil {
			t.Error(err)
		}
		conn, _, err := c.Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})))
	defer server.Close()
	if response, err := server.Client().Get(server.URL); err == nil {
		response.Body.Close()
	}
}

// noFlush is a writer that cannot flush any more.
type noFlush struct{ http.ResponseWriter }

var errNoFlush = errors.New("the client has left")

func (noFlush) Flush()            {}
func (noFlush) FlushError() error { return errNoFlush }

func TestAWatchedWriterKeepsTheErrorOfAFlush(t *testing.T) {
	watching(nil).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != errNoFlush {
			t.Errorf("Flush returned %v, want %v", err, errNoFlush)
		}
	})).ServeHTTP(noFlush{&sink{http.Header{}}}, httptest.NewRequest("GET", "/", nil))
}

func TestAWatchedWriterCostsOneAllocation(t *testing.T) {
	serve := func(final func(core.Result) int64) float64 {
		rules := []nethttp.Rule{
			{Name: "slots", Limit: limits.Concurrent(9), Key: keyfuncs.Constant[*http.Request]("everybody")},
			{Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1_000_000)),
				Key: keyfuncs.Constant[*http.Request]("everybody"), FinalCost: final},
		}
		handler := nethttp.MustNew(nethttp.Config{Rules: rules}).Handler(nothing)
		r := httptest.NewRequest("GET", "/", nil)
		w := &sink{http.Header{}}
		return testing.AllocsPerRun(200, func() {
			clear(w.header)
			handler.ServeHTTP(w, r)
		})
	}
	if without, with := serve(nil), serve(core.SpentCost); with > without+1 && !raceEnabled {
		t.Errorf("%v allocations with a final cost, %v without, want one more at most", with, without)
	}
}

// zeros is an endless source.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// failing is a source that has nothing.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no source") }
