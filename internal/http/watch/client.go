package watch

import (
	"io"
	"os"
)

// Listener is told what becomes of a request. It must be safe for concurrent use, since content may be read
// while an answer is written.
type Listener interface {
	// Stream says that the answer has become a stream or a connection of its own, which may last for any time. It
	// comes before the first Flush, and after a Hijack.
	Stream()
	// Wait says that the handler waits for its client from now on, and Resume that it does not any more. A handler
	// may wait several times at once.
	Wait()
	Resume()
}

// Body returns the content of a request, and tells the listener of the time that reading takes: the client
// has to send it.
func Body(content io.ReadCloser, listener Listener) io.ReadCloser { return &body{content, listener} }

type body struct {
	content  io.ReadCloser
	listener Listener
}

func (b *body) Read(p []byte) (int, error) {
	b.listener.Wait()
	defer b.listener.Resume()
	return b.content.Read(p)
}

// Close reads what the client still sends: net/http takes up to 256 kB of it.
func (b *body) Close() error {
	b.listener.Wait()
	defer b.listener.Resume()
	return b.content.Close()
}

// wait says that w waits for its client until resume.
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

// source is what is copied into an answer. The time in which it is read is the service's.
type source struct {
	io.Reader
	listener Listener
}

func (s *source) Read(p []byte) (int, error) {
	s.listener.Resume()
	defer s.listener.Wait()
	return s.Reader.Read(p)
}

// source returns src as net/http may read it while w waits for its client. A regular file stays what it is, so that the
// kernel can send it: reading it takes no time worth mentioning.
func (w *Writer) source(src io.Reader) io.Reader {
	if w.listener == nil || isFile(src) {
		return src
	}
	return &source{src, w.listener}
}

func isFile(src io.Reader) bool {
	if limited, ok := src.(*io.LimitedReader); ok {
		src = limited.R
	}
	file, ok := src.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}
