package watch

import (
	"context"
	"net/http"
	"sync/atomic"
)

// MarkOwn notes that a limiter of weir answers the request of w instead of its handler. All Writers
// in w have noted it then: see [Writer.Own]. Such an answer says nothing of the services that the
// handler calls.
func MarkOwn(w http.ResponseWriter) {
	for {
		if m, ok := w.(marker); ok {
			m.MarkOwn()
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = inner.Unwrap()
	}
}

// marker is a Writer, or what a framework has instead.
type marker interface{ MarkOwn() }

// MarkOwn is [MarkOwn] for this Writer alone.
func (w *Writer) MarkOwn() { w.own = true }

// Own reports whether a limiter of weir answered: see [MarkOwn].
func (w *Writer) Own() bool { return w.own }

// Call is the context of a remote procedure call, in which limiters find the shedders around them.
type Call struct {
	context.Context
	own atomic.Bool
}

// callKey is the key of the innermost Call in a context.
type callKey struct{}

// Value implements [context.Context].
func (c *Call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// Own reports whether a limiter of weir answered: see [MarkOwnCall].
func (c *Call) Own() bool { return c.own.Load() }

// MarkOwnCall is [MarkOwn] for a remote procedure call with context ctx.
func MarkOwnCall(ctx context.Context) {
	for {
		c, ok := ctx.Value(callKey{}).(*Call)
		if !ok {
			return
		}
		c.own.Store(true)
		ctx = c.Context
	}
}
