package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

func TestSlidingWindowByItsDefinition(t *testing.T) {
	follow(t, model{
		inUse: func(k *key, h history, now int64) int64 {
			var this, before int64
			for _, one := range h {
				switch now/k.Period - one.at/k.Period {
				case 0:
					this += one.left
				case 1:
					before += one.left
				}
			}
			return this + before*(k.Period-now%k.Period)/k.Period
		},
	}, func(random *rand.Rand) limits.Limit { return limits.SlidingWindow(anyRate(random)) })
}
