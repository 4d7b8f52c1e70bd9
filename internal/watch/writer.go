package watch

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// Writer is a ResponseWriter that notes the status and counts the bytes of the answer.
// It has no optional method itself; see [Around]. It is not safe for concurrent use, as
// those of net/http are not.
type Writer struct {
	http.ResponseWriter
	listener Listener // nil: nobody
	bytes    int64
	status   int32 // 0: nothing is written
	streamed bool  // the listener has been told
}

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
	w.ResponseWriter.WriteHeader(status)
	if w.status == 0 && !IsInformational(status) {
		w.status = int32(status)
	}
}

func (w *Writer) Write(p []byte) (int, error) {
	w.begin()
	w.wait()
	defer w.resume()
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// begin notes that something is written, which sends 200 if no status was.
func (w *Writer) begin() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}

func (w *Writer) writeString(s string) (int, error) {
	w.begin()
	w.wait()
	defer w.resume()
	n, err := w.ResponseWriter.(io.StringWriter).WriteString(s)
	w.bytes += int64(n)
	return n, err
}

func (w *Writer) readFrom(src io.Reader) (int64, error) {
	src = w.source(src)
	w.wait()
	defer w.resume()
	n, err := w.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
	if w.bytes += n; n > 0 { // a source that fails at once leaves the status open
		w.begin()
	}
	return n, err
}

func (w *Writer) flush() error {
	w.begin()
	w.streams()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// hijack notes 101, which the handler is about to write to the connection.
func (w *Writer) hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return conn, rw, err
	}
	if w.status == 0 {
		w.status = http.StatusSwitchingProtocols
	}
	w.streams()
	return conn, rw, err
}

func (w *Writer) push(target string, options *http.PushOptions) error {
	return w.ResponseWriter.(http.Pusher).Push(target, options)
}

func (w *Writer) closeNotify() <-chan bool {
	return w.ResponseWriter.(http.CloseNotifier).CloseNotify() //lint:ignore SA1019 gin's Context.Stream asks for it
}

// IsInformational reports whether another status follows one (RFC 9110, section 15.2).
func IsInformational(status int) bool {
	return status >= 100 && status < 200 && status != http.StatusSwitchingProtocols
}
