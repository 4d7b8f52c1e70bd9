package family

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-go/weir/limits"
)

// The tests begin on January 1. February has 28 days: 744h to 1416h. March ends at 2160h.
func TestCalendar(t *testing.T) {
	limit := limits.Calendar(5, limits.Month)
	for name, table := range map[string]string{
		"units come back at the turn of a month": `
			24h               take 3 -> allowed, in use 3, reset 720h0m0s, wait 720h0m0s
			25h               take 2 -> allowed, in use 5, reset 719h0m0s, wait 719h0m0s
			25h               take 1 -> denied, in use 5, reset 719h0m0s, wait 719h0m0s
			25h               take 6 -> denied, in use 5, reset 719h0m0s, wait never
			743h59m59.999999s take 1 -> denied, in use 5, reset 1µs, wait 1µs
			744h              take 0 -> allowed, in use 0, reset 0s, wait 672h0m0s
			744h              take 5 -> allowed, in use 5, reset 672h0m0s, wait 672h0m0s`,
		"what is charged above the maximum is owed to the next month": `
			0h    take 4   -> allowed, in use 4, reset 744h0m0s, wait 744h0m0s
			0h    charge 9 -> charged 6, in use 10, reset 1416h0m0s, wait 1416h0m0s
			0h    charge 1 -> charged 0, in use 10, reset 1416h0m0s, wait 1416h0m0s
			744h  take 1   -> denied, in use 5, reset 672h0m0s, wait 672h0m0s
			744h  charge 2 -> charged 2, in use 7, reset 1416h0m0s, wait 672h0m0s
			744h  take 4   -> denied, in use 7, reset 1416h0m0s, wait 1416h0m0s
			1416h take 3   -> allowed, in use 5, reset 744h0m0s, wait 744h0m0s`,
		"a month that is not the next owes nothing": `
			0h    charge 9 -> charged 9, in use 9, reset 1416h0m0s, wait 744h0m0s
			1416h take 0   -> allowed, in use 0, reset 0s, wait 744h0m0s`,
		"units are returned to their own month": `
			1h   take 3                  -> allowed, in use 3, reset 743h0m0s, wait 743h0m0s
			2h   return 2 of 3 from 1h   -> returned 2, in use 1, reset 742h0m0s, wait 742h0m0s
			2h   return 1 of 3 from 744h -> returned 0, in use 1, reset 742h0m0s, wait 742h0m0s
			2h   return 3 of 3 from 1h   -> returned 1, in use 0, reset 0s, wait 742h0m0s
			3h   charge 9                -> charged 9, in use 9, reset 1413h0m0s, wait 741h0m0s
			3h   return 1 of 3 from 1h   -> returned 1, in use 8, reset 1413h0m0s, wait 741h0m0s
			744h take 1                  -> allowed, in use 4, reset 672h0m0s, wait 672h0m0s
			744h return 3 of 3 from 1h   -> returned 0, in use 4, reset 672h0m0s, wait 672h0m0s`,
		"a key that is not found owes until the month ends": `
			24h  inherit 5 -> inherited, in use 5, reset 720h0m0s, wait 720h0m0s
			744h take 0    -> allowed, in use 0, reset 0s, wait 672h0m0s`,
	} {
		t.Run(name, func(t *testing.T) { specify(t, limit, table) })
	}
}

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
