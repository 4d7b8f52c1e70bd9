// Package call calls backends, which are other people's code: a panic in one becomes an error.
package call

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// Take calls b.Take. A charge that b leaves undecided is denied.
func Take(ctx context.Context, b backends.Backend, charges []backends.Charge, out []limits.Decision) (err error) {
	clear(out)
	defer PanicAsError(b, &err)
	return b.Take(ctx, charges, out)
}

// Peek calls [backends.Peek].
func Peek(ctx context.Context, b backends.Backend, charges []backends.Charge, out []limits.Decision) (err error) {
	clear(out)
	defer PanicAsError(b, &err)
	return backends.Peek(ctx, b, charges, out)
}

// Settle calls [backends.Settle].
func Settle(ctx context.Context, b backends.Backend, endings []backends.Ending, out []limits.Settlement) (err error) {
	defer PanicAsError(b, &err)
	return backends.Settle(ctx, b, endings, out)
}

// ReturnOf returns the ending of a charge that was decided so and is to have cost nothing.
func ReturnOf(ch *backends.Charge, d *limits.Decision) backends.Ending {
	return backends.Ending{Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Taken: ch.Cost, Ticket: d.Ticket, Lasts: ch.Lasts}
}

// Reset calls [backends.Reset].
func Reset(ctx context.Context, b backends.Backend, scope, key string) (err error) {
	defer PanicAsError(b, &err)
	return backends.Reset(ctx, b, scope, key)
}

// PanicAsError makes a panic in a call of b an error, if it is deferred around it.
func PanicAsError(b backends.Backend, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("weir: backend %T: panic: %v", b, v)
	}
}
