package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func TestSlidingWindow(t *testing.T) {
	limit := limits.SlidingWindow(limits.Per(5, 10*time.Second))
	for name, table := range map[string]string{
		"the window before weighs as much as the last period still overlaps it": `
			0s         take 5 -> allowed, in use 5, reset 20s, wait 10.000001s
			10s        take 0 -> allowed, in use 5, reset 10s, wait 1µs
			10s        take 1 -> denied, in use 5, reset 10s, wait 1µs
			10s        take 2 -> denied, in use 5, reset 10s, wait 2.000001s
			12s        take 2 -> denied, in use 4, reset 8s, wait 1µs
			12.000001s take 2 -> allowed, in use 5, reset 17.999999s, wait 2s
			18s        take 0 -> allowed, in use 3, reset 12s, wait 0s
			18.000001s take 0 -> allowed, in use 2, reset 11.999999s, wait 0s
			21s        take 0 -> allowed, in use 1, reset 9s, wait 0s
			30s        take 0 -> allowed, in use 0, reset 0s, wait 0s`,
		"a key that owes waits for its window to fade": `
			9s  take 4   -> allowed, in use 4, reset 11s, wait 0s
			9s  charge 9 -> charged 6, in use 10, reset 11s, wait 6.000001s
			9s  take 6   -> denied, in use 10, reset 11s, wait never
			9s  take 5   -> denied, in use 10, reset 11s, wait 10.000001s
			10s take 5   -> denied, in use 10, reset 10s, wait 9.000001s
			15s take 0   -> allowed, in use 5, reset 5s, wait 1µs
			15s charge 9 -> charged 5, in use 10, reset 15s, wait 5.000001s
			40s take 5   -> allowed, in use 5, reset 20s, wait 10.000001s`,
		"units are returned to this window and the one before": `
			5s  take 2                 -> allowed, in use 2, reset 15s, wait 0s
			6s  take 3                 -> allowed, in use 5, reset 14s, wait 4.000001s
			7s  return 1 of 3 from 6s  -> returned 1, in use 4, reset 13s, wait 0s
			12s take 1                 -> allowed, in use 4, reset 18s, wait 0s
			12s return 2 of 2 from 5s  -> returned 2, in use 2, reset 18s, wait 0s
			12s return 4 of 4 from 12s -> returned 1, in use 1, reset 8s, wait 0s
			22s take 1                 -> allowed, in use 1, reset 18s, wait 0s
			22s return 2 of 2 from 6s  -> returned 0, in use 1, reset 18s, wait 0s`,
		"a key that is not found takes its units now": `
			4s  inherit 5 -> inherited, in use 5, reset 16s, wait 6.000001s
			10s take 1    -> denied, in use 5, reset 10s, wait 1µs
			20s take 0    -> allowed, in use 0, reset 0s, wait 0s`,
	} {
		t.Run(name, func(t *testing.T) { specify(t, limit, table) })
	}
}

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
