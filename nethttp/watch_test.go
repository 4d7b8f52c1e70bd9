package nethttp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

// watching returns a limiter that looks at the answers and hands their results to see.
func watching(see func(core.Result)) *nethttp.Limiter {
	return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1_000_000)), Key: keyfuncs.Constant[*http.Request]("everybody"),
		FinalCost: func(r core.Result) int64 {
			if see != nil {
				see(r)
			}
			return r.Cost
		},
	}}})
}

// The optional interfaces of ResponseWriters, each with one call.
type (
	flusher  struct{ called *string }
	hijacker struct{ called *string }
	reader   struct{ called *string }
	pusher   struct{ called *string }
	stringer struct{ called *string }
	closer   struct{ called *string }
)

func (f flusher) Flush() { *f.called += "F" }
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	*h.called += "H"
	return nil, nil, nil
}
func (r reader) ReadFrom(src io.Reader) (int64, error)  { *r.called += "R"; return 3, nil }
func (p pusher) Push(string, *http.PushOptions) error   { *p.called += "P"; return nil }
func (s stringer) WriteString(text string) (int, error) { *s.called += "S"; return len(text), nil }
func (c closer) CloseNotify() <-chan bool               { *c.called += "C"; return nil }

// writers returns ResponseWriters with the optional interfaces in their names.
func writers(called *string) map[string]http.ResponseWriter {
	type w = http.ResponseWriter
	plain := &sink{http.Header{}}
	f, h, r, p, s, c := flusher{called}, hijacker{called}, reader{called}, pusher{called}, stringer{called}, closer{called}
	return map[string]http.ResponseWriter{
		"": plain,
		"F": struct {
			w
			flusher
		}{plain, f},
		"H": struct {
			w
			hijacker
		}{plain, h},
		"R": struct {
			w
			reader
		}{plain, r},
		"P": struct {
			w
			pusher
		}{plain, p},
		"S": struct {
			w
			stringer
		}{plain, s},
		"C": struct {
			w
			closer
		}{plain, c},
		"FH": struct {
			w
			flusher
			hijacker
		}{plain, f, h},
		"FR": struct {
			w
			flusher
			reader
		}{plain, f, r},
		"HR": struct {
			w
			hijacker
			reader
		}{plain, h, r},
		"FP": struct {
			w
			flusher
			pusher
		}{plain, f, p},
		"FS": struct {
			w
			flusher
			stringer
		}{plain, f, s},
		"FC": struct {
			w
			flusher
			closer
		}{plain, f, c},
		"FHR": struct {
			w
			flusher
			hijacker
			reader
		}{plain, f, h, r},
		"FHP": struct {
			w
			flusher
			hijacker
			pusher
		}{plain, f, h, p},
		"FHS": struct {
			w
			flusher
			hijacker
			stringer
		}{plain, f, h, s},
		"FHSC": struct {
			w
			flusher
			hijacker
			stringer
			closer
		}{plain, f, h, s, c},
		"FPC": struct {
			w
			flusher
			pusher
			closer
		}{plain, f, p, c},
		"FPSC": struct {
			w
			flusher
			pusher
			stringer
			closer
		}{plain, f, p, s, c},
		"FHRC": struct {
			w
			flusher
			hijacker
			reader
			closer
		}{plain, f, h, r, c},
		"FHRP": struct {
			w
			flusher
			hijacker
			reader
			pusher
		}{plain, f, h, r, p},
		"FHRSC": struct {
			w
			flusher
			hijacker
			reader
			stringer
			closer
		}{plain, f, h, r, s, c},
		"FHRPS": struct {
			w
			flusher
			hijacker
			reader
			pusher
			stringer
		}{plain, f, h, r, p, s},
		"FHRPSC": struct {
			w
			flusher
			hijacker
			reader
			pusher
			stringer
			closer
		}{plain, f, h, r, p, s, c},
	}
}

// callAll calls every optional interface that w has, and returns their letters.
func callAll(w http.ResponseWriter) (has string) {
	if f, ok := w.(http.Flusher); ok {
		has += "F"
		f.Flush()
	}
	if h, ok := w.(http.Hijacker); ok {
		has += "H"
		h.Hijack()
	}
	if r, ok := w.(io.ReaderFrom); ok {
		has += "R"
		r.ReadFrom(struct{ io.Reader }{strings.NewReader("abc")}) // no WriterTo
	}
	if p, ok := w.(http.Pusher); ok {
		has += "P"
		p.Push("/", nil)
	}
	if s, ok := w.(io.StringWriter); ok {
		has += "S"
		s.WriteString("hello")
	}
	//lint:ignore SA1019 some frameworks ask for it
	if c, ok := w.(http.CloseNotifier); ok {
		has += "C"
		c.CloseNotify()
	}
	return has
}

// kept returns the letters of what a watched writer has around one that has letters: R and S always, C
// beside F alone, and P beside both.
func kept(letters string) (has string) {
	f, h := strings.Contains(letters, "F"), strings.Contains(letters, "H")
	c := f && strings.Contains(letters, "C")
	p := c && strings.Contains(letters, "P")
	for _, l := range []struct {
		letter string
		kept   bool
	}{{"F", f}, {"H", h}, {"R", true}, {"P", p}, {"S", true}, {"C", c}} {
		if l.kept {
			has += l.letter
		}
	}
	return has
}

func TestAWatchedWriterHasTheInterfacesOfTheServersOwn(t *testing.T) {
	called := ""
	for letters, inner := range writers(&called) {
		has := ""
		end := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if w == inner {
				t.Errorf("%q: the writer is not watched", letters)
			}
			has = callAll(w)
		})
		var results []core.Result
		see := func(r core.Result) { results = append(results, r) }
		called = ""
		handler := watching(see).Handler(watching(see).Handler(end)) // one watches the other
		handler.ServeHTTP(inner, httptest.NewRequest("GET", "/", nil))
		want := kept(letters)
		reached := strings.Map(func(l rune) rune {
			if !strings.ContainsRune(letters, l) {
				return -1 // by Write
			}
			return l
		}, want)
		if has != want || called != reached {
			t.Errorf("%q: has %q, want %q; called %q, want %q", letters, has, want, called, reached)
		}
		status := http.StatusOK
		if strings.HasPrefix(want, "H") {
			status = http.StatusSwitchingProtocols
		}
		if len(results) != 2 || results[0] != results[1] || results[0].Bytes != int64(len("abc")+len("hello")) || results[0].Status != status {
			t.Errorf("%q: results %+v, want 8 bytes and status %d", letters, results, status)
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
		{"early hints, then a status", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(404) }, 0},
		{"two statuses", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401); w.WriteHeader(200) }, 0},
		{"a status after the body", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "abc"); w.WriteHeader(500) }, 3},
		{"a status after a flush", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); w.WriteHeader(500) }, 0},
		{"a copy", func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, io.LimitReader(zeros{}, 100_000)) }, 100_000},
		{"a copy that fails at once", func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, io.MultiReader(failing{}))
			w.WriteHeader(502)
		}, 0},
		{"a file", func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "a.txt", time.Time{}, strings.NewReader("some text"))
		}, 9},
		{"a redirection", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) }, -1},
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
		if err := errors.Join(c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{}), c.EnableFullDuplex(), c.Flush()); err != nil {
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
			{Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1_000_000)), Key: keyfuncs.Constant[*http.Request]("everybody"), FinalCost: final},
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
