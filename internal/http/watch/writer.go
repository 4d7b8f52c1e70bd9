package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Writer is a ResponseWriter that notes the status and counts the bytes of the answer.
// See [Around] for what else it can do. It is not safe for concurrent use, as those of net/http
// are not.
type Writer struct {
	_        [0]func() // not to be compared: a function for that would be linked for each shape
	inner    http.ResponseWriter
	listener Listener // nil: no one is told
	bytes    int64
	status   int32 // 0: nothing is written
	streamed bool  // the listener has been told
}

func (w *Writer) Header() http.Header { return w.inner.Header() }

// Bytes returns the length of the content so far.
func (w *Writer) Bytes() int64 { return w.bytes }

// Answer returns the status of the answer to a request whose handler has ended with err,
// and whether anything is written.
func (w *Writer) Answer(err error) (status int, written bool) {
	switch {
	case w.status != 0:
		return int(w.status), true
	case err != nil:
		return 0, false // whoever gets the error may answer
	}
	return http.StatusOK, false // as net/http does
}

func (w *Writer) self() *Writer { return w }

// Stream tells the Listeners of all writers around w that its answer has become a stream, and
// reports whether there was one to tell.
func Stream(w http.ResponseWriter) (told bool) {
	for {
		if around, ok := w.(watcher); ok && around.self().streams() {
			told = true
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return told
		}
		w = inner.Unwrap()
	}
}

// streams tells the Listener, once.
func (w *Writer) streams() bool {
	if w.listener == nil || w.streamed {
		return false
	}
	w.streamed = true
	w.listener.Stream()
	return true
}

func (w *Writer) WriteHeader(status int) {
	if IsInformational(status) { // net/http sends it at once
		w.wait()
		defer w.resume()
	}
	w.inner.WriteHeader(status)
	if w.status == 0 && !IsInformational(status) {
		w.status = int32(status)
	}
}

func (w *Writer) Write(p []byte) (int, error) {
	w.begin()
	w.wait()
	defer w.resume()
	n, err := w.inner.Write(p)
	w.bytes += int64(n)
	return n, err
}

// begin notes that something is written, which sends 200 if no status was.
func (w *Writer) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

// WriteString is Write without a copy, if the writer inside can do that.
func (w *Writer) WriteString(s string) (int, error) {
	w.begin()
	w.wait()
	defer w.resume()
	n, err := io.WriteString(w.inner, s)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom lets the kernel send a file, if the writer inside can do that.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	src = w.source(src)
	w.wait()
	defer w.resume()
	n, err := readFrom(w.inner, src)
	if w.bytes += n; n > 0 { // a source that fails at once leaves the status open
		w.begin()
	}
	return n, err
}

// readFrom copies src into w: by ReadFrom if w has that.
func readFrom(w io.Writer, src io.Reader) (int64, error) {
	if direct, ok := w.(io.ReaderFrom); ok {
		return direct.ReadFrom(src)
	}
	return io.Copy(w, src)
}

// FlushError is what http.ResponseController asks for before Flush. Each Writer has it, so that it records a
// flush of a writer that only Unwrap of w finds.
func (w *Writer) FlushError() error {
	if finds[http.Flusher](w.inner) || finds[interface{ FlushError() error }](w.inner) {
		w.begin()
		w.streams()
	}
	return http.NewResponseController(w.inner).Flush()
}

// Unwrap returns where http.ResponseController looks for what w lacks. If a writer there hijacks, it finds a
// Hijack that records it.
func (w *Writer) Unwrap() http.ResponseWriter {
	if finds[http.Hijacker](w.inner) {
		return unwrapped{w}
	}
	return w.inner
}

type unwrapped struct{ *Writer }

func (u unwrapped) Unwrap() http.ResponseWriter                  { return u.inner }
func (u unwrapped) Hijack() (net.Conn, *bufio.ReadWriter, error) { return u.hijack() }

// finds reports whether w is a T or unwraps to one, apart from Writers.
func finds[T any](w http.ResponseWriter) bool {
	for {
		if ours, ok := w.(watcher); ok {
			w = ours.self().inner
			continue
		}
		if _, ok := w.(T); ok {
			return true
		}
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = wrapper.Unwrap()
	}
}

// hijack notes 101, which the handler is about to write to the connection.
func (w *Writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.inner).Hijack()
	if err != nil {
		return conn, rw, err
	}
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	w.streams()
	return conn, rw, err
}

// IsInformational reports whether another status follows one (RFC 9110, section 15.2).
func IsInformational(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}
