// Package unseen says what a framework keeps from the functions of package keyfuncs.
package unseen

import "context"

type tlsKey struct{}

// TLS returns the context of a request whose state of TLS is not known.
func TLS(ctx context.Context) context.Context { return context.WithValue(ctx, tlsKey{}, true) }

// IsTLS reports whether it is that of such a request.
func IsTLS(ctx context.Context) bool { return ctx.Value(tlsKey{}) != nil }
