package watch

import (
	"context"
	"net/http"
	"sync/atomic"
)

// MarkOwn notes that a limiter of weir answers the request of w instead of its handler, with a
// status. All Writers in w have noted it then: see [IsOwn]. Such an answer says nothing of the
// services that the handler calls.
func MarkOwn(w http.ResponseWriter, status int) {
	for {
		if m, ok := w.(marker); ok {
			m.MarkOwn(status)
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = inner.Unwrap()
	}
}

// marker is a Writer, or what a framework has instead.
type marker interface{ MarkOwn(status int) }

// AnyStatus is the status of an answer that the program makes for a limiter.
const AnyStatus = -1

// IsOwn reports whether an answer with a status, or 0 if it is not known, is one of a limiter that
// has noted the status marked; 0: none has. Middleware may drop the answer of a limiter and call
// the next handler again. The answer is then another one, whose status tells.
func IsOwn(marked, status int) bool {
	return marked != 0 && (marked == status || marked == AnyStatus || status == 0)
}

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
