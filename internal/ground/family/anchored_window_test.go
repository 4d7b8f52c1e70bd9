package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

// anchoredAt returns the start of the window that counts at now, and the units in it.
func anchoredAt(k *key, h history, now int64) (start, used int64) {
	for _, one := range append(h[:len(h):len(h)], taking{at: now}) {
		for used > 0 && one.at >= start+k.Period {
			start, used = start+k.Period, max(0, used-k.Max)
		}
		if used == 0 {
			start = one.at
		}
		used += one.left
	}
	return start, used
}

func TestAnchoredWindowByItsDefinition(t *testing.T) {
	follow(t, model{
		inUse: func(k *key, h history, now int64) int64 {
			_, used := anchoredAt(k, h, now)
			return used
		},
		returns: func(k *key, h history, i int, n int64) int64 {
			start, used := anchoredAt(k, h, h.last())
			if starts := h[i].at == start && n == h[i].left; h[i].at < start || starts && used > n {
				return 0
			}
			return n
		},
	}, func(random *rand.Rand) limits.Limit { return limits.AnchoredWindow(anyRate(random)) })
}
