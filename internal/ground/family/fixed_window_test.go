package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

// Each window takes off as many units as its maximum.
func TestFixedWindowByItsDefinition(t *testing.T) {
	window := func(k *key, at int64) int64 { return at / k.Period }
	follow(t, model{
		inUse: func(k *key, h history, now int64) (used int64) {
			turns := now // of no window before the first taking
			for _, one := range append(h[:len(h):len(h)], taking{at: now}) {
				used = max(0, used-k.Max*max(0, window(k, one.at)-window(k, turns))) + one.left
				turns = one.at
			}
			return used
		},
		returns: func(k *key, h history, i int, n int64) int64 {
			if window(k, h[i].at) != window(k, h.last()) {
				return 0
			}
			return n
		},
	}, func(random *rand.Rand) limits.Limit { return limits.FixedWindow(anyRate(random)) })
}
