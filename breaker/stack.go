package breaker

import "github.com/weir-go/weir/core"

// NewStack wraps inner in the recommended order. From the outside in: a denial cache
// with its defaults, a breaker with these options, inner. It panics where [New] does.
// It is short for
//
//	core.NewDenialCache(breaker.New(inner, options), core.DenialCacheOptions{})
//
// Write this out if a health check needs the breaker for its [Breaker.State].
func NewStack(inner core.Backend, options Options) *core.DenialCache {
	return core.NewDenialCache(New(inner, options), core.DenialCacheOptions{})
}
