package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

func TestConcurrentByItsDefinition(t *testing.T) {
	follow(t, model{
		inUse: func(_ *key, h history, _ int64) (used int64) {
			for _, one := range h {
				used += one.left
			}
			return used
		},
	}, func(random *rand.Rand) limits.Limit { return limits.Concurrent(1 + random.Int64N(12)) })
}
