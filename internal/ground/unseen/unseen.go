// Package unseen marks requests of which a framework hides something that package keyfuncs needs.
package unseen

import "context"

type tlsKey struct{}

// TLS returns a copy of ctx for a request whose TLS state is hidden.
func TLS(ctx context.Context) context.Context { return context.WithValue(ctx, tlsKey{}, true) }

// IsTLS reports whether ctx came from TLS.
func IsTLS(ctx context.Context) bool { return ctx.Value(tlsKey{}) != nil }
