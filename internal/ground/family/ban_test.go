package family

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func TestBan(t *testing.T) {
	limit := limits.Ban(limits.Per(5, 10*time.Second), time.Minute)
	for name, table := range map[string]string{
		"a period starts with a unit": `
			1s  take 0 -> allowed, in use 0, reset 0s, wait 10s
			2s  take 1 -> allowed, in use 1, reset 10s, wait 10s
			11s take 3 -> allowed, in use 4, reset 1s, wait 1s
			12s take 0 -> allowed, in use 0, reset 0s, wait 10s
			15s take 1 -> allowed, in use 1, reset 10s, wait 10s`,
		"the taking that reaches the number bans the key": `
			0s          take 3 -> allowed, in use 3, reset 10s, wait 10s
			4s          take 4 -> allowed, in use 7, reset 1m0s, wait 1m0s
			5s          take 1 -> denied, in use 7, reset 59s, wait 59s
			5s          take 0 -> denied, in use 7, reset 59s, wait 59s
			5s          take 9 -> denied, in use 7, reset 59s, wait 59s
			1m3.999999s take 1 -> denied, in use 7, reset 1µs, wait 1µs
			1m4s        take 1 -> allowed, in use 1, reset 10s, wait 10s`,
		"any number of units fits once": `
			0s take 100 -> allowed, in use 100, reset 1m0s, wait 1m0s
			0s take 1   -> denied, in use 100, reset 1m0s, wait 1m0s`,
		"a charge bans, up to twice the number": `
			0s charge 3  -> charged 3, in use 3, reset 10s, wait 10s
			1s charge 20 -> charged 7, in use 10, reset 1m0s, wait 1m0s
			2s charge 1  -> charged 0, in use 10, reset 59s, wait 59s`,
		"a return lifts the ban that it undoes": `
			0s take 4                 -> allowed, in use 4, reset 10s, wait 10s
			1s take 3                 -> allowed, in use 7, reset 1m0s, wait 1m0s
			2s return 2 of 3 from 1s  -> returned 2, in use 5, reset 59s, wait 59s
			2s return 1 of 3 from 10s -> returned 0, in use 5, reset 59s, wait 59s
			3s return 1 of 4 from 0s  -> returned 1, in use 4, reset 7s, wait 7s
			4s return 9 of 9 from 0s  -> returned 4, in use 0, reset 0s, wait 10s
			5s take 1                 -> allowed, in use 1, reset 10s, wait 10s
			6s return 1 of 1 from 1s  -> returned 0, in use 1, reset 9s, wait 9s`,
		"a return lifts a ban long after the period": `
			0s  take 4                -> allowed, in use 4, reset 10s, wait 10s
			1s  take 3                -> allowed, in use 7, reset 1m0s, wait 1m0s
			40s return 3 of 3 from 1s -> returned 7, in use 0, reset 0s, wait 10s`,
		"a return of the first taking leaves the start of the period": `
			0s  take 1                -> allowed, in use 1, reset 10s, wait 10s
			8s  take 4                -> allowed, in use 5, reset 1m0s, wait 1m0s
			9s  return 1 of 1 from 0s -> returned 1, in use 4, reset 1s, wait 1s
			10s take 0                -> allowed, in use 0, reset 0s, wait 10s`,
		"inherited units deny, and ban nobody": `
			0s inherit 4             -> inherited, in use 4, reset 10s, wait 10s
			4s take 2                -> allowed, in use 6, reset 10s, wait 10s
			5s take 0                -> denied, in use 6, reset 9s, wait 9s
			5s charge 2              -> charged 2, in use 8, reset 10s, wait 10s
			6s return 1 of 2 from 4s -> returned 0, in use 8, reset 9s, wait 9s
			6s return 9 of 9 from 5s -> returned 4, in use 4, reset 9s, wait 9s
			7s take 5                -> allowed, in use 9, reset 1m0s, wait 1m0s
			8s take 1                -> denied, in use 9, reset 59s, wait 59s`,
	} {
		t.Run(name, func(t *testing.T) { specify(t, limit, table) })
	}
}

// Of as many units as a state can count, none come back.
func TestABanCountsToTheLargestNumber(t *testing.T) {
	k := newKey(limits.Ban(limits.Per(1_000_000_000, 10*time.Second), time.Minute))
	specifyKey(t, k, `
		0s take 9223372036854775807                -> allowed, in use 4294967295, reset 1m0s, wait 1m0s
		1s return 4294967295 of 4294967295 from 0s -> returned 0, in use 4294967295, reset 59s, wait 59s`)
	if k.used.B != math.MaxUint32 {
		t.Error(k.used)
	}
}

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
