package connectmw

import (
	"context"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

// Detach leaves the end of the call with context ctx to the caller, who must call end when it is
// over. It is for work that outlives its handler. A panic of the handler does not end a detached
// call. Otherwise Detach is [nethttp.Detach], which reaches all limiters that the call has passed.
func Detach(ctx context.Context) (end func(core.Result), ok bool) { return nethttp.Detach(ctx) }

// Spend adds n units to what the call with context ctx has really cost under the rule of that
// name, and reports whether it counted anywhere. A handler may call it for each message of a stream.
// It is [nethttp.Spend].
func Spend(ctx context.Context, rule string, n int64) bool { return nethttp.Spend(ctx, rule, n) }
