package ginmw

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/shed"
)

// Shed returns a handler that lets only requests that s admits through to the handlers after it,
// and answers the others with status 503. All handlers of one shedder count together. It goes
// before limiters and authentication. If [shed.Options].Route is nil, the route of a request is its
// FullPath. Shed panics if s is nil or was not made by [shed.New].
func Shed(s *shed.Shedder[*gin.Context]) gin.HandlerFunc {
	gate := shedgate.New(s, shedgate.Config[*gin.Context]{
		Route:       (*gin.Context).FullPath,
		Committed:   func(c *gin.Context) bool { return c.Writer.Written() },
		Answered:    answered,
		WithRequest: withRequest,
	})
	return func(c *gin.Context) {
		if err := gate.Serve(c.Writer, c.Request, c, proceedWatched); err != errProceeded {
			c.Abort()
		}
	}
}

// proceedWatched calls the handlers after the shedder with a writer that tells it of
// streams.
func proceedWatched(w http.ResponseWriter, c *gin.Context) error {
	// Do not compare w with c.Writer: that panics if their type is not comparable.
	if _, ok := w.(gin.ResponseWriter); !ok {
		own := c.Writer
		c.Writer = &watchedWriter{own, w}
		defer func() { c.Writer = own }()
	}
	c.Next()
	return errProceeded
}

// watchedWriter is a writer of gin that writes, flushes and hijacks by another writer that wraps
// it.
type watchedWriter struct {
	gin.ResponseWriter
	around http.ResponseWriter
}

// Unwrap serves http.ResponseController and [shed.Stream].
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.around }

// Write writes by the wrapper, which measures the time for the shedder.
func (w *watchedWriter) Write(p []byte) (int, error) { return w.around.Write(p) }

// WriteString implements io.StringWriter in the same way.
func (w *watchedWriter) WriteString(s string) (int, error) { return io.WriteString(w.around, s) }

// Flush implements http.Flusher.
func (w *watchedWriter) Flush() { _ = http.NewResponseController(w.around).Flush() }

// Hijack implements http.Hijacker.
func (w *watchedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(w.around).Hijack()
}
