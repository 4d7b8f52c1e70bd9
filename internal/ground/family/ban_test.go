package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

// banAt returns the start of the period that counts at now, and its units.
func banAt(k *key, h history, now int64) (start, units int64) {
	opened, until := false, int64(0) // the end of the ban, or 0
	for _, one := range append(h[:len(h):len(h)], taking{at: now}) {
		over := start + k.Period
		if until > 0 {
			over = until
		}
		if !opened || one.at >= over {
			start, units, until = one.at, 0, 0
		}
		opened = true
		if units += one.left; units >= k.Max && until == 0 {
			until = one.at + k.Given.Lasting().Microseconds()
		}
	}
	return start, units
}

// Returns are lenient: a period stays where it is, though the unit that started it comes back.
func TestBanByItsDefinition(t *testing.T) {
	follow(t, model{
		inUse: func(k *key, h history, now int64) int64 {
			_, units := banAt(k, h, now)
			return units
		},
		returns: func(k *key, h history, i int, n int64) int64 {
			if start, _ := banAt(k, h, h.last()); h[i].at < start || h[i].at >= start+k.Period {
				return 0
			}
			return n
		},
		lenient: true,
	}, func(random *rand.Rand) limits.Limit {
		return limits.Ban(anyRate(random), time.Duration(1000+random.IntN(9000))*time.Microsecond)
	})
}
