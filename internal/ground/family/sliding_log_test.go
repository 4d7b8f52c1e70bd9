package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func TestSlidingLog(t *testing.T) {
	limit := limits.SlidingLog(limits.Per(5, 10*time.Second))
	for name, table := range map[string]string{
		"each taking counts for a period": `
			0s        take 2 -> allowed, in use 2, reset 10s, wait 0s
			3s        take 1 -> allowed, in use 3, reset 10s, wait 0s
			6s        take 2 -> allowed, in use 5, reset 10s, wait 4s
			7s        take 1 -> denied, in use 5, reset 9s, wait 3s
			7s        take 3 -> denied, in use 5, reset 9s, wait 6s
			7s        take 5 -> denied, in use 5, reset 9s, wait 9s
			7s        take 6 -> denied, in use 5, reset 9s, wait never
			9.999999s take 1 -> denied, in use 5, reset 6.000001s, wait 1µs
			10s       take 0 -> allowed, in use 3, reset 6s, wait 0s
			10s       take 2 -> allowed, in use 5, reset 10s, wait 3s
			20s       take 5 -> allowed, in use 5, reset 10s, wait 10s`,
		"what is charged above the maximum counts as long": `
			0s  take 4   -> allowed, in use 4, reset 10s, wait 0s
			2s  charge 9 -> charged 6, in use 10, reset 10s, wait 10s
			2s  charge 1 -> charged 0, in use 10, reset 10s, wait 10s
			10s take 1   -> denied, in use 6, reset 2s, wait 2s
			12s take 5   -> allowed, in use 5, reset 10s, wait 10s`,
		"units are returned to their own taking": `
			0s  take 2                -> allowed, in use 2, reset 10s, wait 0s
			2s  take 1                -> allowed, in use 3, reset 10s, wait 0s
			2s  take 1                -> allowed, in use 4, reset 10s, wait 0s
			4s  take 1                -> allowed, in use 5, reset 10s, wait 6s
			5s  return 1 of 2 from 0s -> returned 1, in use 4, reset 9s, wait 0s
			5s  return 9 of 9 from 2s -> returned 2, in use 2, reset 9s, wait 0s
			5s  return 1 of 1 from 3s -> returned 0, in use 2, reset 9s, wait 0s
			6s  return 1 of 1 from 4s -> returned 1, in use 1, reset 4s, wait 0s
			7s  take 4                -> allowed, in use 5, reset 10s, wait 3s
			10s return 2 of 2 from 0s -> returned 0, in use 4, reset 7s, wait 0s
			11s return 4 of 4 from 7s -> returned 4, in use 0, reset 0s, wait 0s
			11s take 5                -> allowed, in use 5, reset 10s, wait 10s`,
		"a key that is not found takes its units now": `
			4s  inherit 3 -> inherited, in use 3, reset 10s, wait 0s
			14s take 0    -> allowed, in use 0, reset 0s, wait 0s`,
	} {
		t.Run(name, func(t *testing.T) { specify(t, limit, table) })
	}
}

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

func TestALogMayOweAsMuchAsItsMaximum(t *testing.T) {
	specify(t, limits.SlidingLog(limits.Per(10_000, 10*time.Second)), `
		0s  take 10000   -> allowed, in use 10000, reset 10s, wait 10s
		1s  charge 10000 -> charged 10000, in use 20000, reset 10s, wait 10s
		2s  take 1       -> denied, in use 20000, reset 9s, wait 9s
		10s take 0       -> allowed, in use 10000, reset 1s, wait 1s`)
}
