package ginmw

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// onStatus implements [gate.Config].OnStatus. gin sends the header after the first WriteHeader, so f
// may be called again with another status.
func onStatus(w http.ResponseWriter, c *gin.Context, f func(int)) http.ResponseWriter {
	c.Writer = &statusWriter{c.Writer, f}
	return w
}

type statusWriter struct {
	gin.ResponseWriter
	onStatus func(int)
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.Written() {
		w.onStatus(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin calls onStatus if the header is about to be sent.
func (w *statusWriter) begin() {
	if !w.Written() {
		w.onStatus(w.Status())
	}
}

func (w *statusWriter) WriteHeaderNow()             { w.begin(); w.ResponseWriter.WriteHeaderNow() }
func (w *statusWriter) Write(p []byte) (int, error) { w.begin(); return w.ResponseWriter.Write(p) }
func (w *statusWriter) WriteString(s string) (int, error) {
	w.begin()
	return w.ResponseWriter.WriteString(s)
}
func (w *statusWriter) Flush() { w.begin(); w.ResponseWriter.Flush() }

// Unwrap returns the writer in which http.ResponseController looks for methods.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
