package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

func TestCalendarByItsDefinition(t *testing.T) {
	day := func(k *key, at int64) int64 { return at / k.Period } // in UTC
	follow(t, model{
		inUse: func(k *key, h history, now int64) (used int64) {
			turns := now
			for _, one := range append(h[:len(h):len(h)], taking{at: now}) {
				switch day(k, one.at) - day(k, turns) {
				case 0:
				case 1:
					used = min(k.Max, max(0, used-k.Max))
				default:
					used = 0
				}
				used += one.left
				turns = one.at
			}
			return used
		},
		returns: func(k *key, h history, i int, n int64) int64 {
			if day(k, h[i].at) != day(k, h.last()) {
				return 0
			}
			return n
		},
	}, func(random *rand.Rand) limits.Limit { return limits.Calendar(1+random.Int64N(12), limits.Day) })
}
