package gate

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// PerAddress returns what PerAddress of an adapter hands to its New, and the mistakes that New does
// not see. Without a backend, store is nil.
func PerAddress[R any](
	rate limits.Rate, source func(R) (netip.Addr, error), backend []backends.Backend,
) (rules []core.Rule[R], store backends.Backend, err error) {
	var errs []error
	key := keyfuncs.Address(source)
	if source == nil {
		errs = append(errs, errors.New("nethttp: PerAddress: source: is nil: "+
			"pass keyfuncs.Peer, or describe your proxies to keyfuncs.TrustedProxies"))
		key = keyfuncs.Constant[R]("") // New would tell of a key function
	}
	switch len(backend) {
	case 0:
	case 1:
		store = backend[0]
	default:
		errs = append(errs, fmt.Errorf("nethttp: PerAddress: backend: pass one at most (got %d)",
			len(backend)))
	}
	limit := limits.SlidingWindow(rate)
	return []core.Rule[R]{{Name: "per-address", Limit: limit, Key: key}}, store, errors.Join(errs...)
}
