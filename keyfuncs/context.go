package keyfuncs

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
)

// FromContext returns the key function of a value in the request's context,
// such as the user that authentication put there. If read reports false, or the
// empty string, it returns core.ErrAbsent. A value of more than 64 bytes is
// represented as [Header] says. If read is nil, so is the result.
//
// To have another key costs a client what the middleware that wrote the value
// asks for it. That middleware must come before the limiter.
func FromContext(read func(context.Context) (string, bool)) func(*http.Request) (string, error) {
	if read == nil {
		return nil
	}
	return func(r *http.Request) (string, error) {
		value, ok := read(r.Context())
		if !ok || value == "" {
			return "", core.ErrAbsent
		}
		return bounded(value), nil
	}
}
