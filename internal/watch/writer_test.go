package watch

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// able is a writer that flushes and hijacks.
type able struct{ *httptest.ResponseRecorder }

func (able) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// counter is a Listener that counts streams.
type counter struct{ calls int }

func (c *counter) Stream() { c.calls++ }
func (c *counter) Wait()   {}
func (c *counter) Resume() {}

func TestEveryShapeTellsOfTheFirstFlushOrHijack(t *testing.T) {
	for _, s := range shapes {
		c := new(counter)
		w := s.make()
		*w.self() = Writer{inner: able{httptest.NewRecorder()}, listener: c}
		if s.needs&flushes != 0 {
			w.(http.Flusher).Flush()
			if c.calls != 1 {
				t.Errorf("%T: told %d times of a Flush", w, c.calls)
			}
			w.(interface{ FlushError() error }).FlushError()
		}
		if s.needs&hijacks != 0 {
			w.(http.Hijacker).Hijack()
		}
		if want := min(1, s.needs&(flushes|hijacks)); c.calls != int(want) {
			t.Errorf("%T: told %d times, want %d", w, c.calls, want)
		}
	}
}

func TestStreamTellsAllThatAreAround(t *testing.T) {
	inner, outer := new(counter), new(counter)
	w, _ := Around(httptest.NewRecorder(), outer)
	w, _ = Around(w, nil)
	w, _ = Around(w, inner)
	if !Stream(w) || inner.calls != 1 || outer.calls != 1 {
		t.Errorf("told %d and %d times", inner.calls, outer.calls)
	}
	if Stream(w) || Stream(httptest.NewRecorder()) || inner.calls != 1 {
		t.Error("told again")
	}
}
