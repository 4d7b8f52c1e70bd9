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

// Unwrap returns the writer in which http.ResponseController looks for methods.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
