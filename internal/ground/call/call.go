// Package call calls the methods of backends and turns their panics into errors: a backend is code
// that weir does not control.
package call

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Take calls b.Take. It first clears out, so a charge that b leaves undecided is denied.
func Take(ctx context.Context, b backends.Backend, charges []backends.Charge,
	out []limits.Decision) (err error) {
	clear(out)
	defer PanicAsError(b, &err)
	return b.Take(ctx, charges, out)
}

// Peek calls [backends.Peek].
func Peek(ctx context.Context, b backends.Backend, charges []backends.Charge,
	out []limits.Decision) (err error) {
	clear(out)
	defer PanicAsError(b, &err)
	return backends.Peek(ctx, b, charges, out)
}

// Settle calls [backends.Settle].
func Settle(ctx context.Context, b backends.Backend, endings []backends.Ending,
	out []limits.Settlement) (err error) {
	defer PanicAsError(b, &err)
	return backends.Settle(ctx, b, endings, out)
}

// ReturnOf returns the Ending that refunds the charge ch in full. d is the decision on it.
func ReturnOf(ch *backends.Charge, d *limits.Decision) backends.Ending {
	return backends.Ending{Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Taken: ch.Cost,
		Value: ch.Value, Ticket: d.Ticket, Lasts: ch.Lasts, Lends: ch.Lends}
}

// Reset calls [backends.Reset].
func Reset(ctx context.Context, b backends.Backend, scope, key string) (err error) {
	defer PanicAsError(b, &err)
	return backends.Reset(ctx, b, scope, key)
}

// Instances calls [backends.Instances].
func Instances(b backends.Backend) (n int, err error) {
	defer PanicAsError(b, &err)
	return backends.Instances(b), nil
}

// PanicAsError turns a panic in a call of b into an error. Defer it in the function that calls b.
func PanicAsError(b backends.Backend, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("weir: backend %T: panic: %v", b, v)
	}
}
