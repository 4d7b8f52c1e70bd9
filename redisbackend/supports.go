package redisbackend

import "github.com/weir-go/weir/limits"

// Supports implements [limits.Supporter]. It reports whether the scripts know the
// algorithm of limit: all that this version of weir has.
func (b *Backend) Supports(limit limits.Limit) bool {
	a := int(limit.Algorithm())
	return a < len(algorithms) && algorithms[a] != 0
}
