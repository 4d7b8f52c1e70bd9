package watch

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The parts of a server's writer. Each notes its letter when it is called.
type (
	bare     struct{ http.ResponseWriter }
	flusher  struct{ called *strings.Builder }
	hijacker struct{ called *strings.Builder }
	pusher   struct{ called *strings.Builder }
	closer   struct{ called *strings.Builder }
)

func (f flusher) Flush() { f.called.WriteString("F") }
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	h.called.WriteString("H")
	return nil, nil, nil
}
func (p pusher) Push(string, *http.PushOptions) error { p.called.WriteString("P"); return nil }
func (c closer) CloseNotify() <-chan bool             { c.called.WriteString("C"); return nil }

// plain is a writer of a middleware that has Unwrap alone.
type plain struct{ bare }

func (p plain) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// writers returns a writer for each list of letters, the six combinations that Around has first.
func writers(called *strings.Builder) (letters []string, each map[string]http.ResponseWriter) {
	b := bare{httptest.NewRecorder()}
	f, h, p, c := flusher{called}, hijacker{called}, pusher{called}, closer{called}
	return []string{"FHC", "FPC", "FH", "FP", "F", "", "H", "P", "C", "FC", "FHP", "FHPC"}, map[string]http.ResponseWriter{
		"FHC": struct {
			bare
			flusher
			hijacker
			closer
		}{b, f, h, c},
		"FPC": struct {
			bare
			flusher
			pusher
			closer
		}{b, f, p, c},
		"FH": struct {
			bare
			flusher
			hijacker
		}{b, f, h},
		"FP": struct {
			bare
			flusher
			pusher
		}{b, f, p},
		"F": struct {
			bare
			flusher
		}{b, f},
		"": b,
		"H": struct {
			bare
			hijacker
		}{b, h},
		"P": struct {
			bare
			pusher
		}{b, p},
		"C": struct {
			bare
			closer
		}{b, c},
		"FC": struct {
			bare
			flusher
			closer
		}{b, f, c},
		"FHP": struct {
			bare
			flusher
			hijacker
			pusher
		}{b, f, h, p},
		"FHPC": struct {
			bare
			flusher
			hijacker
			pusher
			closer
		}{b, f, h, p, c},
	}
}

// callAll calls all that w has by an assertion, and returns its letters.
func callAll(w http.ResponseWriter) (has string) {
	if f, ok := w.(http.Flusher); ok {
		has += "F"
		f.Flush()
	}
	if h, ok := w.(http.Hijacker); ok {
		has += "H"
		h.Hijack()
	}
	if p, ok := w.(http.Pusher); ok {
		has += "P"
		p.Push("/", nil)
	}
	if c, ok := w.(closeNotifier); ok {
		has += "C"
		c.CloseNotify()
	}
	return has
}

// counter is a Listener that counts streams.
type counter struct{ calls int }

func (c *counter) Stream() { c.calls++ }
func (c *counter) Wait()   {}
func (c *counter) Resume() {}

func TestAssertionsFindWhatServersWritersHave(t *testing.T) {
	loses := map[string]string{"H": "", "P": "", "C": "", "FC": "F", "FHP": "FH", "FHPC": "FHC"}
	called := new(strings.Builder)
	letters, each := writers(called)
	for _, letters := range letters {
		want := letters
		if rest, ok := loses[letters]; ok {
			want = rest
		}
		inner, outer := new(counter), new(counter)
		w, _ := Around(each[letters], outer)
		w, _ = Around(w, inner)
		called.Reset()
		if has := callAll(w); has != want || called.String() != want {
			t.Errorf("around %q: has %q and calls %q, want %q", letters, has, called, want)
		}
		told := 0
		if strings.ContainsAny(want, "FH") {
			told = 1
		}
		if inner.calls != told || outer.calls != told {
			t.Errorf("around %q: listeners are told of %d and %d streams, want %d", letters, inner.calls, outer.calls, told)
		}
	}
}

func TestAControllerFindsWhatIsInsideAndIsRecorded(t *testing.T) {
	called := new(strings.Builder)
	letters, each := writers(called)
	for _, letters := range letters {
		for name, server := range map[string]http.ResponseWriter{
			"bare": each[letters], "one middleware": plain{bare{each[letters]}}, "two": plain{bare{plain{bare{each[letters]}}}},
		} {
			for _, do := range []struct {
				letter string
				by     func(*http.ResponseController) error
				status int
			}{
				{"F", (*http.ResponseController).Flush, 200},
				{"H", func(c *http.ResponseController) error { _, _, err := c.Hijack(); return err }, 101},
			} {
				can := strings.Contains(letters, do.letter)
				inner, outer := new(counter), new(counter)
				w, first := Around(server, outer)
				w, second := Around(plain{bare{w}}, inner)
				called.Reset()
				err := do.by(http.NewResponseController(w))
				for _, watched := range []*Writer{first, second} {
					if status, written := watched.Answer(nil); written != can || can && status != do.status {
						t.Errorf("%q, %s: %s: records %d, written %v", letters, name, do.letter, status, written)
					}
				}
				switch {
				case can && (err != nil || called.String() != do.letter || inner.calls != 1 || outer.calls != 1):
					t.Errorf("%q, %s: %s: %v, calls %q, told %d and %d times", letters, name, do.letter, err, called, inner.calls,
						outer.calls)
				case !can && (!errors.Is(err, http.ErrNotSupported) || called.Len() != 0 || inner.calls+outer.calls != 0):
					t.Errorf("%q, %s: %s: %v, want it not supported", letters, name, do.letter, err)
				}
			}
		}
	}
}

func TestAWriterThatCannotHijackUnwrapsToTheServers(t *testing.T) {
	server := httptest.NewRecorder()
	w, _ := Around(server, nil)
	if inner := w.(interface{ Unwrap() http.ResponseWriter }).Unwrap(); inner != server {
		t.Errorf("unwraps to a %T", inner)
	}
}

func TestStreamTellsAllThatAreAround(t *testing.T) {
	called := new(strings.Builder)
	_, each := writers(called)
	inner, outer := new(counter), new(counter)
	w, _ := Around(plain{bare{each["FH"]}}, outer)
	w, _ = Around(w, nil)
	w, _ = Around(plain{bare{w}}, inner)
	if !Stream(plain{bare{w}}) || inner.calls != 1 || outer.calls != 1 {
		t.Errorf("told %d and %d times", inner.calls, outer.calls)
	}
	if Stream(w) || Stream(httptest.NewRecorder()) || inner.calls != 1 {
		t.Error("told again")
	}
}
