package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func TestFixedWindow(t *testing.T) {
	limit := limits.FixedWindow(limits.Per(5, 10*time.Second))
	for name, table := range map[string]string{
		"units come back at the turn of a window": `
			2s        take 3 -> allowed, in use 3, reset 8s, wait 8s
			3s        take 2 -> allowed, in use 5, reset 7s, wait 7s
			3s        take 0 -> allowed, in use 5, reset 7s, wait 7s
			3s        take 1 -> denied, in use 5, reset 7s, wait 7s
			3s        take 6 -> denied, in use 5, reset 7s, wait never
			9.999999s take 1 -> denied, in use 5, reset 1µs, wait 1µs
			10s       take 0 -> allowed, in use 0, reset 0s, wait 10s
			10s       take 5 -> allowed, in use 5, reset 10s, wait 10s`,
		"what is charged above the maximum is owed to the next window": `
			0s  take 4   -> allowed, in use 4, reset 10s, wait 10s
			0s  charge 9 -> charged 6, in use 10, reset 20s, wait 20s
			0s  charge 1 -> charged 0, in use 10, reset 20s, wait 20s
			0s  take 5   -> denied, in use 10, reset 20s, wait 20s
			10s take 0   -> allowed, in use 5, reset 10s, wait 10s
			10s charge 2 -> charged 2, in use 7, reset 20s, wait 10s
			10s take 4   -> denied, in use 7, reset 20s, wait 20s
			20s take 3   -> allowed, in use 5, reset 10s, wait 10s`,
		"units are returned to their own window": `
			1s  take 2                 -> allowed, in use 2, reset 9s, wait 9s
			2s  take 3                 -> allowed, in use 5, reset 8s, wait 8s
			3s  return 1 of 3 from 2s  -> returned 1, in use 4, reset 7s, wait 7s
			3s  return 1 of 1 from 10s -> returned 0, in use 4, reset 7s, wait 7s
			4s  return 2 of 2 from 1s  -> returned 2, in use 2, reset 6s, wait 6s
			5s  return 9 of 9 from 2s  -> returned 2, in use 0, reset 0s, wait 5s
			5s  take 4                 -> allowed, in use 4, reset 5s, wait 5s
			11s take 1                 -> allowed, in use 1, reset 9s, wait 9s
			12s return 4 of 4 from 5s  -> returned 0, in use 1, reset 8s, wait 8s`,
		"a return lowers what is owed": `
			0s  take 5                -> allowed, in use 5, reset 10s, wait 10s
			0s  charge 4              -> charged 4, in use 9, reset 20s, wait 10s
			1s  return 3 of 5 from 0s -> returned 3, in use 6, reset 19s, wait 9s
			10s take 0                -> allowed, in use 1, reset 10s, wait 10s`,
		"a key that is not found owes until its window ends": `
			4s  inherit 5 -> inherited, in use 5, reset 6s, wait 6s
			10s take 0    -> allowed, in use 0, reset 0s, wait 10s`,
	} {
		t.Run(name, func(t *testing.T) { specify(t, limit, table) })
	}
}

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
