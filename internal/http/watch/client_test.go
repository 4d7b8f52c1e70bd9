package watch

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// waits is a Listener that counts the waits under way, and all.
type waits struct{ now, all int }

func (w *waits) Stream() {}
func (w *waits) Wait()   { w.now++; w.all++ }
func (w *waits) Resume() { w.now-- }

// watching is a server's writer that notes whether it is written to while the listener is told of a wait.
type watching struct {
	*httptest.ResponseRecorder
	listener *waits
	t        *testing.T
	from     io.Reader // the last source
}

func (w *watching) check() {
	w.t.Helper()
	if w.listener.now != 1 {
		w.t.Errorf("written to in %d waits", w.listener.now)
	}
}

func (w *watching) Write(p []byte) (int, error)       { w.check(); return len(p), nil }
func (w *watching) WriteString(s string) (int, error) { w.check(); return len(s), nil }
func (w *watching) ReadFrom(src io.Reader) (int64, error) {
	w.check()
	w.from = src
	return io.Copy(io.Discard, src)
}
func (w *watching) WriteHeader(status int) {
	if IsInformational(status) {
		w.check()
	}
}

// ours is a source of the service.
type ours struct {
	io.Reader
	listener *waits
	t        *testing.T
}

func (o ours) Read(p []byte) (int, error) {
	if o.listener.now != 0 {
		o.t.Errorf("read in %d waits", o.listener.now)
	}
	return o.Reader.Read(p)
}

func TestAWriterTellsOfTheTimeThatWritingTakes(t *testing.T) {
	listener := new(waits)
	w, _ := Around(&watching{httptest.NewRecorder(), listener, t, nil}, listener)
	want := 6 // one before reading a source, and one after each of the two reads of it
	w.WriteHeader(http.StatusEarlyHints)
	w.WriteHeader(http.StatusOK)
	w.Write([]byte("x"))
	io.WriteString(w, "x")
	w.(io.ReaderFrom).ReadFrom(ours{strings.NewReader("x"), listener, t})
	if listener.now != 0 || listener.all != want {
		t.Errorf("%d waits, %d of them not over, want %d", listener.all, listener.now, want)
	}
}

func TestTheKernelMaySendAFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	pipe, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	end.Close()
	for _, c := range []struct {
		name string
		src  io.Reader
		same bool
	}{{"a file", file, true}, {"a part of a file", &io.LimitedReader{R: file, N: 3}, true}, {"a pipe", pipe, false}} {
		server := &watching{httptest.NewRecorder(), new(waits), t, nil}
		w, _ := Around(server, server.listener)
		if _, err := w.(io.ReaderFrom).ReadFrom(c.src); err != nil {
			t.Fatal(err)
		}
		if same := server.from == c.src; same != c.same {
			t.Errorf("%s is passed on as it is: %v, want %v", c.name, same, c.same)
		}
	}
}
