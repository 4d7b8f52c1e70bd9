package watch

import (
	"io"
	"os"
)

// Listener is called about the time of a request. It must be safe for concurrent use, since content
// may be read while an answer is written.
type Listener interface {
	// Stream says that the answer has become a stream or a connection, which may last for any time.
	// It is called before the first Flush, and after a Hijack.
	Stream()
	// Wait says that the handler begins to wait for its client, and Resume that it ends. A handler
	// may wait several times at once.
	Wait()
	Resume()
}

// Body returns the content of a request. Reading it counts as waiting for the client, who sends it.
func Body(content io.ReadCloser, listener Listener) io.ReadCloser {
	return &body{content, listener}
}

type body struct {
	content  io.ReadCloser
	listener Listener
}

func (b *body) Read(p []byte) (int, error) {
	b.listener.Wait()
	defer b.listener.Resume()
	return b.content.Read(p)
}

// Close may read the rest of the content, up to 256 kB, so it waits for the client too.
func (b *body) Close() error {
	b.listener.Wait()
	defer b.listener.Resume()
	return b.content.Close()
}

// source is a Reader that is copied into an answer. Reading it is time of the service, not of the
// client.
type source struct {
	io.Reader
	listener Listener
}

func (s *source) Read(p []byte) (int, error) {
	s.listener.Resume()
	defer s.listener.Wait()
	return s.Reader.Read(p)
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
