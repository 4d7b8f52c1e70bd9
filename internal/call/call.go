// Package call calls backends, which are other people's code: a panic in one becomes an error.
package call

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/limits"
)

// Take calls b.Take. A charge that b leaves undecided is denied.
func Take(ctx context.Context, b limits.Backend, charges []limits.Charge, out []limits.Decision) (err error) {
	clear(out)
	defer PanicAsError(b, &err)
	return b.Take(ctx, charges, out)
}

// Peek calls [limits.Peek].
func Peek(ctx context.Context, b limits.Backend, charges []limits.Charge, out []limits.Decision) (err error) {
	clear(out)
	defer PanicAsError(b, &err)
	return limits.Peek(ctx, b, charges, out)
}

// Settle calls [limits.Settle].
func Settle(ctx context.Context, b limits.Backend, endings []limits.Ending, out []limits.Settlement) (err error) {
	defer PanicAsError(b, &err)
	return limits.Settle(ctx, b, endings, out)
}

// ReturnOf returns the ending of a charge that was decided so and is to have cost nothing.
func ReturnOf(ch *limits.Charge, d *limits.Decision) limits.Ending {
	return limits.Ending{Scope: ch.Scope, Key: ch.Key, Limit: ch.Limit, Taken: ch.Cost, Ticket: d.Ticket, Lasts: ch.Lasts}
}

// Reset calls [limits.Reset].
func Reset(ctx context.Context, b limits.Backend, scope, key string) (err error) {
	defer PanicAsError(b, &err)
	return limits.Reset(ctx, b, scope, key)
}

// PanicAsError makes a panic in a call of b an error, if it is deferred around it.
func PanicAsError(b limits.Backend, err *error) {
	if v := recover(); v != nil {
		*err = fmt.Errorf("weir: backend %T: panic: %v", b, v)
	}
}
