package connect2mw

import (
	"context"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/nethttp"
)

// Detach detaches the end of the call with context ctx from its handler: the caller must call end
// when the call is over. It is for work that outlives its handler. It is [nethttp.Detach].
func Detach(ctx context.Context) (end func(core.Result), ok bool) { return nethttp.Detach(ctx) }

// Spend adds n units to the final cost of the call with context ctx under the named rule, and
// reports whether there was such a rule. A handler may call it for each message of a stream. It is
// [nethttp.Spend].
func Spend(ctx context.Context, rule string, n int64) bool { return nethttp.Spend(ctx, rule, n) }
