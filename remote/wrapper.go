package remote

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/internal/ground/isnil"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// wrapper is the base of a backend that wraps another. A type that embeds it has all methods that
// a backend may have but Take: what it does not do itself, the inner backend does, if it can.
type wrapper struct{ inner backends.Backend }

// validateInner returns an error if the backend to wrap is nil.
func validateInner(inner backends.Backend) error {
	if isnil.Of(inner) {
		return fmt.Errorf("remote: inner: is nil (got %T): pass the backend to wrap", inner)
	}
	return nil
}

// must returns v, and panics if err is not nil.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Peek implements [backends.Peeker] if the inner backend does.
func (w *wrapper) Peek(
	ctx context.Context, charges []backends.Charge, out []limits.Decision,
) error {
	return backends.Peek(ctx, w.inner, charges, out)
}

// Settle implements [backends.Settler] if the inner backend does.
func (w *wrapper) Settle(
	ctx context.Context, endings []backends.Ending, out []limits.Settlement,
) error {
	return backends.Settle(ctx, w.inner, endings, out)
}

// Reset implements [backends.Resetter] if the inner backend does.
func (w *wrapper) Reset(ctx context.Context, scope, key string) error {
	return backends.Reset(ctx, w.inner, scope, key)
}

// Count implements [backends.Counter] if the inner backend does.
func (w *wrapper) Count(ctx context.Context) (int, error) { return backends.Count(ctx, w.inner) }

// Unwrap returns the inner backend.
func (w *wrapper) Unwrap() backends.Backend { return w.inner }
