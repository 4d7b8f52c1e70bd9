package answer_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/http/answer"
)

const limit = 1<<20 + 1000 // in the middle of a buffer

func TestADeniedBodyIsReadUpToTheLimit(t *testing.T) {
	for _, tt := range []struct {
		name   string
		size   int64
		length int64 // that the client says; -1: unknown
		change func(*http.Request)
		h1, h2 int64 // what Drain reads
	}{
		{name: "nothing"},
		{name: "what Go's server takes", size: 65_535, length: 65_535},
		{name: "more over HTTP/2", size: 65_536, length: 65_536, h2: 65_536},
		{name: "more over both", size: 256<<10 + 1, length: 256<<10 + 1, h1: 256<<10 + 1, h2: 256<<10 + 1},
		{name: "as much as the limit", size: limit, length: limit, h1: limit, h2: limit},
		{name: "more than the limit", size: limit + 1, length: limit + 1},
		{name: "an unknown length", size: 1000, length: -1, h1: 1000, h2: 1000},
		{name: "an unknown length above the limit", size: 2 * limit, length: -1, h1: limit, h2: limit},
		{name: "not begun", size: limit, length: limit, change: setField("Expect", "100-continue")},
		{name: "gRPC", size: 1000, length: -1, change: setField("Content-Type", "application/grpc+proto")},
		{name: "CONNECT", size: 1000, length: -1, change: func(r *http.Request) { r.Method = "CONNECT" }},
		{name: "Connect", size: 1000, length: -1, change: setField("Content-Type", "application/connect+json")},
	} {
		for proto, want := range map[int]int64{1: tt.h1, 2: tt.h2, 3: 0} {
			body := &counting{io.LimitReader(letters{}, tt.size), 0}
			r := httptest.NewRequest("POST", "/", body)
			r.ContentLength, r.ProtoMajor = tt.length, proto
			if tt.change != nil {
				tt.change(r)
			}
			answer.Drain(&connection{ResponseWriter: httptest.NewRecorder()}, r, limit)
			if body.read != want {
				t.Errorf("%s, HTTP/%d: read %d of %d bytes, want %d", tt.name, proto, body.read, tt.size, want)
			}
		}
	}
}

func setField(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

type letters struct{}

func (letters) Read(p []byte) (int, error) { return copy(p, strings.Repeat("x", len(p))), nil }

type counting struct {
	io.Reader
	read int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	return n, err
}

func TestADeniedBodyThatPausesOrIsSlowIsGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name        string
		gap         time.Duration // before each byte
		least, most time.Duration
	}{
		{"none comes", time.Hour, 500 * time.Millisecond, 500 * time.Millisecond},
		{"a pause", 501 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond},
		{"short pauses", 449 * time.Millisecond, 2 * time.Second, 2 * time.Second},
		{"slow", 100 * time.Millisecond, 2 * time.Second, 2 * time.Second},
		{"fast", time.Microsecond, time.Millisecond, time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &connection{ResponseWriter: httptest.NewRecorder(), gap: tt.gap, left: 1000}
			r := httptest.NewRequest("POST", "/", c)
			r.ContentLength, r.ProtoMajor = 100_000, 2
			start := time.Now()
			answer.Drain(c, r, limit)
			if took := time.Since(start); took < tt.least || took > tt.most {
				t.Errorf("%s: %v", tt.name, took)
			}
			if c.deadlines > 50 {
				t.Errorf("%s: %d deadlines", tt.name, c.deadlines)
			}
			if whole := c.left == 0; c.deadline.IsZero() != whole {
				t.Errorf("%s: body read: %v, deadline %v: the server must not wait for the rest of a body, "+
					"nor the next request inherit a deadline", tt.name, whole, c.deadline)
			}
		})
	}
}

// A Denied of the program may read the body, and the rest is read after it.
func TestABodyIsGivenUpOnce(t *testing.T) {
	for _, tt := range []struct {
		gap  time.Duration
		most time.Duration
	}{
		{time.Hour, 500 * time.Millisecond},
		{100 * time.Millisecond, 2 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &connection{ResponseWriter: httptest.NewRecorder(), gap: tt.gap, left: 1000}
			r := httptest.NewRequest("POST", "/", c)
			r.ContentLength, r.ProtoMajor = 1<<20, 1
			start := time.Now()
			if _, ok := answer.ReadDenied(c, r, limit); ok {
				t.Error("the body was read")
			}
			answer.Drain(c, r, limit)
			if took := time.Since(start); took != tt.most {
				t.Errorf("a byte in %v: %v, want %v", tt.gap, took, tt.most)
			}
		})
	}
}

func TestWhatDeniedReadsOfABodyIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name         string
		size, length int64
		ok           bool
		read         int64
	}{
		{"nothing", 0, 0, true, 0},
		{"a little", 10, 10, true, 10},
		{"as much as the limit", limit, -1, true, limit},
		{"more", limit + 10, -1, false, limit + 1},
		{"more, as it says", limit + 1, limit + 1, false, 0},
	} {
		body := &counting{io.LimitReader(letters{}, tt.size), 0}
		r := httptest.NewRequest("POST", "/", body)
		r.ContentLength = tt.length
		c := &connection{ResponseWriter: httptest.NewRecorder()}
		got, ok := answer.ReadDenied(c, r, limit)
		if ok != tt.ok || ok && int64(len(got)) != tt.size || body.read != tt.read {
			t.Errorf("%s: %v, %d of %d bytes, read %d", tt.name, ok, len(got), tt.size, body.read)
		}
		if tt.ok && !c.deadline.IsZero() {
			t.Errorf("%s: the next request inherits a deadline", tt.name)
		}
	}
}

// Middleware outside may have stored the body, or slow it down on purpose.
func TestABodyThatHeedsNoDeadlineIsGivenUp(t *testing.T) {
	for name, read := range map[string]func(http.ResponseWriter, *http.Request){
		"Drain":      func(w http.ResponseWriter, r *http.Request) { answer.Drain(w, r, limit) },
		"ReadDenied": func(w http.ResponseWriter, r *http.Request) { answer.ReadDenied(w, r, limit) },
	} {
		synctest.Test(t, func(t *testing.T) {
			body := &counting{slow{}, 0}
			r := httptest.NewRequest("POST", "/", body)
			r.ContentLength, r.ProtoMajor = limit, 2
			start := time.Now()
			read(&connection{ResponseWriter: httptest.NewRecorder()}, r)
			if took := time.Since(start); took != 2*time.Second {
				t.Errorf("%s: %v", name, took)
			}
		})
	}
}

// slow is a body of a letter every 100 ms.
type slow struct{}

func (slow) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return copy(p, "x"), nil
}

func TestARequestWithoutABodyIsReadAtOnce(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	r.Body = nil
	answer.Drain(httptest.NewRecorder(), r, limit)
	if body, ok := answer.ReadDenied(httptest.NewRecorder(), r, limit); !ok || len(body) > 0 {
		t.Errorf("%q %t", body, ok)
	}
}

// Slow denied uploads must not hold many handlers.
func TestFewDeniedBodiesAreReadAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			start := time.Now()
			var atOnce, later atomic.Int64
			for range 300 {
				go func() {
					c := &connection{ResponseWriter: httptest.NewRecorder(), gap: time.Hour, left: 1}
					r := httptest.NewRequest("POST", "/", c)
					r.ContentLength, r.ProtoMajor = 100_000, 2
					answer.Drain(c, r, limit)
					if time.Since(start) == 0 {
						atOnce.Add(1)
					} else {
						later.Add(1)
					}
				}()
			}
			time.Sleep(time.Second)
			if atOnce.Load() != 44 || later.Load() != 256 {
				t.Errorf("%d were read, %d were not", later.Load(), atOnce.Load())
			}
		}
	})
}

// connection is a body and its ResponseWriter.
type connection struct {
	http.ResponseWriter
	gap    time.Duration
	left   int
	closed bool

	deadline  time.Time
	deadlines int // how often one was set
}

func (c *connection) SetReadDeadline(t time.Time) error {
	c.deadline = t
	c.deadlines++
	return nil
}

func (c *connection) Close() error { c.closed = true; return nil }

func (c *connection) Read(p []byte) (int, error) {
	if c.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if c.left == 0 {
		return 0, io.EOF
	}
	if time.Until(c.deadline) < c.gap {
		time.Sleep(time.Until(c.deadline))
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(c.gap)
	c.left--
	return 1, nil
}

// Without a deadline a slow client could hold the handler for as long as it likes.
func TestABodyWithoutDeadlinesIsLeftAlone(t *testing.T) {
	body := &counting{io.LimitReader(letters{}, 100_000), 0}
	r := httptest.NewRequest("POST", "/", body)
	r.ContentLength, r.ProtoMajor = 100_000, 2
	answer.Drain(httptest.NewRecorder(), r, limit)
	if body.read > 0 {
		t.Errorf("read %d bytes", body.read)
	}
}
