package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Writer is a ResponseWriter that records the status and counts the bytes of the answer. See
// [Around] for its other methods. Like those of net/http, it is not safe for concurrent use.
type Writer struct {
	_        [0]func() // prevents ==: the linker would keep a function for it for each shape
	inner    http.ResponseWriter
	listener Listener  // nil: none
	onStatus func(int) // nil: none
	bytes    int64
	status   int32 // 0: nothing is written yet
	own      int32 // see MarkOwn
	streamed bool  // Stream of the listener was called
}

func (w *Writer) Header() http.Header { return w.inner.Header() }

// Bytes returns the length of the content so far.
func (w *Writer) Bytes() int64 { return w.bytes }

// Answer returns the status of the answer to a request whose handler returned err, and whether
// anything was written.
func (w *Writer) Answer(err error) (status int, written bool) {
	switch {
	case w.status != 0:
		return int(w.status), true
	case err != nil:
		return 0, false // an outer handler that gets the error may answer
	}
	return http.StatusOK, false // as net/http does
}

func (w *Writer) self() *Writer { return w }

// MarkOwn is [MarkOwn] for this Writer alone.
func (w *Writer) MarkOwn(status int) { w.own = int32(status) }

// Own returns the status that MarkOwn has noted, or 0.
func (w *Writer) Own() int { return int(w.own) }

// Stream tells the Listeners of all Writers in w that its answer has become a stream. It returns
// true if there was one.
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

// streams tells the Listener once.
func (w *Writer) streams() bool {
	if w.listener == nil || w.streamed {
		return false
	}
	w.streamed = true
	w.listener.Stream()
	return true
}

// wait says that w waits for its client, until resume.
func (w *Writer) wait() {
	if w.listener != nil {
		w.listener.Wait()
	}
}

func (w *Writer) resume() {
	if w.listener != nil {
		w.listener.Resume()
	}
}

func (w *Writer) WriteHeader(status int) {
	if IsInformational(status) { // net/http sends it at once
		w.wait()
		defer w.resume()
	}
	if !IsInformational(status) {
		w.tell(status)
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

// begin records that something is written: net/http then sends 200 if no status was written.
func (w *Writer) begin() {
	if w.status == 0 {
		w.tell(http.StatusOK)
		w.status = http.StatusOK
	}
}

// tell calls onStatus once.
func (w *Writer) tell(status int) {
	if w.onStatus != nil && w.status == 0 {
		w.onStatus(status)
	}
}

// WriteString is Write without a copy if the inner writer can do that.
func (w *Writer) WriteString(s string) (int, error) {
	w.begin()
	w.wait()
	defer w.resume()
	n, err := io.WriteString(w.inner, s)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom lets the kernel send a file if the inner writer can do that.
func (w *Writer) ReadFrom(src io.Reader) (int64, error) {
	src = w.source(src)
	w.tell(http.StatusOK) // before the header is sent
	w.wait()
	defer w.resume()
	n, err := readFrom(w.inner, src)
	if w.bytes += n; n > 0 { // a source that fails at once leaves the status open
		w.begin()
	}
	return n, err
}

// source wraps src for net/http, which reads it while w waits for its client. It returns a regular
// file as it is, so that the kernel can send it; reading a file takes almost no time.
func (w *Writer) source(src io.Reader) io.Reader {
	if w.listener == nil || isFile(src) {
		return src
	}
	return &source{src, w.listener}
}

// readFrom copies src into w, by ReadFrom if w has it.
func readFrom(w io.Writer, src io.Reader) (int64, error) {
	if direct, ok := w.(io.ReaderFrom); ok {
		return direct.ReadFrom(src)
	}
	return io.Copy(w, src)
}

// FlushError is the method that http.ResponseController looks for before Flush. Every Writer has
// it, so it also records the flush of a writer that only Unwrap finds.
func (w *Writer) FlushError() error {
	if finds[http.Flusher](w.inner) || finds[interface{ FlushError() error }](w.inner) {
		w.begin()
		w.streams()
	}
	return http.NewResponseController(w.inner).Flush()
}

// Unwrap returns the writer in which http.ResponseController looks for methods that w lacks. If it
// can hijack, its Hijack records that.
func (w *Writer) Unwrap() http.ResponseWriter {
	if finds[http.Hijacker](w.inner) {
		return unwrapped{w}
	}
	return w.inner
}

type unwrapped struct{ *Writer }

func (u unwrapped) Unwrap() http.ResponseWriter                  { return u.inner }
func (u unwrapped) Hijack() (net.Conn, *bufio.ReadWriter, error) { return u.hijack() }

// finds reports whether w is a T or unwraps to one, not counting Writers.
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

// hijack records the status 101, which the handler will write to the connection.
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

// IsInformational reports whether another status follows this one (RFC 9110, section 15.2).
func IsInformational(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}
