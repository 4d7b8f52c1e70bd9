package backends

import (
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

// Supporter is implemented by backends that can say which limits they decide.
type Supporter interface {
	// Supports reports whether the backend decides limit, which is legal.
	Supports(limit limits.Limit) bool
}

// Supports reports whether b decides limit, which is legal. It asks b, or the first
// of the backends that b wraps that is a [Supporter], following their methods
// Unwrap() Backend. Of a backend that does not say it assumes the algorithms that
// every backend has to decide: token bucket, leaky bucket, leaky queue, fixed
// window, sliding window and sliding log.
//
// core.New reports a rule that its backend, or the fallback, does not support. A limit
// that LimitFor finds and the backend does not support is an error of LimitFor.
func Supports(b Backend, limit limits.Limit) bool {
	if s, ok := As[Supporter](b); ok {
		return s.Supports(limit)
	}
	return algorithm.Of(limit.Algorithm()).Required
}
