// Package grpcdenial makes the denial of a request into one of a call of gRPC, whose client reads
// neither the status of HTTP nor a document.
package grpcdenial

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/weir-go/weir/internal/http/answer"
)

// Asked reports whether r, the request that a proxy asks about, is a call of gRPC.
func Asked(r *http.Request) bool { return answer.AsksByGRPC(r) }

// Set makes h the header of a denial of r, which has no body then. Its status was status, 400 or
// more, and its body was body. The proxy sends the status 200 itself.
func Set(h http.Header, r *http.Request, status int, body []byte) {
	text := textOf(h.Get("Content-Type"), body)
	if text == nil {
		text = answer.AppendWait([]byte(http.StatusText(status)), h)
	}
	delete(h, "Content-Length")
	answer.SetGRPC(h, r, answer.GRPC{
		Status: status, Message: text, Wait: answer.Seconds(answer.RetryAfter(h)),
	})
}

// textOf returns the sentence of an answer, or nil.
func textOf(contentType string, body []byte) []byte {
	switch {
	case contentType == answer.Problem, contentType == answer.JSON: // the latter with headers.Bots
		var document struct{ Type, Detail string }
		if json.Unmarshal(body, &document) == nil && document.Type != "" && document.Detail != "" {
			return []byte(document.Detail)
		}
	case strings.HasPrefix(contentType, "text/plain"):
		if text := bytes.TrimSpace(body); len(text) > 0 {
			return text
		}
	}
	return nil
}
