package keyfuncs

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/core"
)

// FromContext returns the key function of a value in the request's context, such as the
// user that authentication stored there. The key function returns core.ErrAbsent if
// read reports false or returns the empty string. A value of more than 64 bytes is
// represented by its digest, as in [Header]. If read is nil, the result is nil.
//
// The middleware that stores the value must run before the limiter. Another key costs a
// client what that middleware demands for another value.
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
