package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func TestAnchoredWindow(t *testing.T) {
	limit := limits.AnchoredWindow(limits.Per(5, 10*time.Second))
	for name, table := range map[string]string{
		"a window starts with a taking, and ends a period later": `
			3s         take 0 -> allowed, in use 0, reset 0s, wait 10s
			4s         take 3 -> allowed, in use 3, reset 10s, wait 10s
			6s         take 2 -> allowed, in use 5, reset 8s, wait 8s
			6s         take 1 -> denied, in use 5, reset 8s, wait 8s
			6s         take 6 -> denied, in use 5, reset 8s, wait never
			13.999999s take 1 -> denied, in use 5, reset 1µs, wait 1µs
			14s        take 0 -> allowed, in use 0, reset 0s, wait 10s
			17s        take 1 -> allowed, in use 1, reset 10s, wait 10s`,
		"the next window starts at once with what is owed": `
			4s  take 4   -> allowed, in use 4, reset 10s, wait 10s
			5s  charge 9 -> charged 6, in use 10, reset 19s, wait 19s
			5s  charge 1 -> charged 0, in use 10, reset 19s, wait 19s
			14s take 1   -> denied, in use 5, reset 10s, wait 10s
			15s charge 2 -> charged 2, in use 7, reset 19s, wait 9s
			15s take 4   -> denied, in use 7, reset 19s, wait 19s
			24s take 3   -> allowed, in use 5, reset 10s, wait 10s
			39s take 1   -> allowed, in use 1, reset 10s, wait 10s`,
		"units are returned to their own window": `
			1s  take 1                 -> allowed, in use 1, reset 10s, wait 10s
			2s  take 3                 -> allowed, in use 4, reset 9s, wait 9s
			3s  return 2 of 3 from 2s  -> returned 2, in use 2, reset 8s, wait 8s
			3s  return 2 of 3 from 11s -> returned 0, in use 2, reset 8s, wait 8s
			3s  return 3 of 3 from 2s  -> returned 0, in use 2, reset 8s, wait 8s
			11s take 4                 -> allowed, in use 4, reset 10s, wait 10s
			12s return 1 of 1 from 1s  -> returned 0, in use 4, reset 9s, wait 9s`,
		"the taking that started a window stays while others count from it": `
			1s return 1 of 1 from 1s -> returned 0, in use 0, reset 0s, wait 10s
			1s take 3                -> allowed, in use 3, reset 10s, wait 10s
			2s take 1                -> allowed, in use 4, reset 9s, wait 9s
			3s return 3 of 3 from 1s -> returned 0, in use 4, reset 8s, wait 8s
			3s return 2 of 3 from 1s -> returned 2, in use 2, reset 8s, wait 8s
			4s return 1 of 1 from 2s -> returned 1, in use 1, reset 7s, wait 7s
			5s return 1 of 1 from 1s -> returned 1, in use 0, reset 0s, wait 10s
			6s take 1                -> allowed, in use 1, reset 10s, wait 10s`,
		"a return lowers what is owed": `
			0s  take 5                -> allowed, in use 5, reset 10s, wait 10s
			0s  charge 4              -> charged 4, in use 9, reset 20s, wait 10s
			1s  return 3 of 5 from 0s -> returned 3, in use 6, reset 19s, wait 9s
			10s take 0                -> allowed, in use 1, reset 10s, wait 10s`,
		"each taking moves the window of a key that is not found": `
			4s  inherit 3             -> inherited, in use 3, reset 10s, wait 10s
			9s  take 1                -> allowed, in use 4, reset 10s, wait 10s
			12s charge 3              -> charged 3, in use 7, reset 20s, wait 10s
			13s return 1 of 1 from 9s -> returned 0, in use 7, reset 19s, wait 9s
			22s take 1                -> allowed, in use 3, reset 10s, wait 10s
			25s take 1                -> allowed, in use 4, reset 10s, wait 10s
			35s take 0                -> allowed, in use 0, reset 0s, wait 10s
			36s take 1                -> allowed, in use 1, reset 10s, wait 10s
			37s take 1                -> allowed, in use 2, reset 9s, wait 9s`,
	} {
		t.Run(name, func(t *testing.T) { specify(t, limit, table) })
	}
}

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
