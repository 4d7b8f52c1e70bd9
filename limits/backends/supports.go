package backends

import (
	"github.com/weir-go/weir/internal/ground/algorithm"
	"github.com/weir-go/weir/limits"
)

// Supporter is a Backend that says which limits it decides. A backend that decides fewer algorithms
// than [Supports] assumes, or more, must be one.
type Supporter interface {
	// Supports reports whether the backend decides a limit, which is legal.
	Supports(limit limits.Limit) bool
}

// Supports reports whether b decides a limit, which is legal. It asks the first [Supporter] among b
// and the backends that it wraps (by their methods Unwrap() Backend). Without a Supporter, it
// assumes the token bucket, leaky bucket, leaky queue, fixed window, sliding window and sliding
// log.
//
// core.New reports a rule that its backend or fallback does not support. If LimitFor returns a
// limit that the backend does not support, LimitFor fails.
func Supports(b Backend, limit limits.Limit) bool {
	if s, ok := As[Supporter](b); ok {
		return s.Supports(limit)
	}
	return algorithm.Of(limit.Algorithm()).Required
}
