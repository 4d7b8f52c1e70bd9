package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

func TestSlidingLogByItsDefinition(t *testing.T) {
	follow(t, model{
		inUse: func(k *key, h history, now int64) (used int64) {
			for _, one := range h {
				if one.at > now-k.Period {
					used += one.left
				}
			}
			return used
		},
	}, func(random *rand.Rand) limits.Limit { return limits.SlidingLog(anyRate(random)) })
}
