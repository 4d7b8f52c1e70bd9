package memory

import (
	"context"
	"sync/atomic"

	"github.com/weir-go/weir/internal/ground/call"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Bound limits each key of a scope by one limit. [Memory.Bind] returns one. It is safe for
// concurrent use.
type Bound struct {
	memory *Memory
	scope  string
	limit  limits.Limit
	bound  atomic.Pointer[scopedLimit]
}

// Take takes n units of a key if they fit, and allocates nothing. It returns an error if n is
// negative, or if more limits have live state in the [Memory] at once than it can tell apart.
func (b *Bound) Take(key string, n int64) (d limits.Decision, err error) {
	err = b.TakeInto(&d, key, n)
	return d, err
}

// TakeInto is Take that writes the decision to d, which saves a fifth of the time. On an error d
// becomes the zero value, a denial.
func (b *Bound) TakeInto(d *limits.Decision, key string, n int64) error {
	if n < 0 || b.memory.clock.given != nil || !b.memory.takeOne(b.bound.Load(), key, n, 0, d) {
		return b.takeAnew(key, n, d)
	}
	return nil
}

// takeAnew is the slow path of TakeInto: it looks up the limit again and calls Take.
func (b *Bound) takeAnew(key string, n int64, d *limits.Decision) (err error) {
	*d = limits.Decision{}
	charges := [1]backends.Charge{{Scope: b.scope, Key: key, Limit: b.limit, Cost: n}}
	bound, err := b.memory.limitOf(&charges[0])
	if err != nil {
		return err
	}
	b.bound.Store(bound)
	defer call.PanicAsError(b.memory, &err) // Options.Clock may panic
	var out [1]limits.Decision
	if err = b.memory.Take(context.Background(), charges[:], out[:]); err == nil {
		*d = out[0]
	}
	return err
}
