package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func TestBucket(t *testing.T) {
	rate := limits.Per(5, 10*time.Second)
	for name, table := range map[string]string{
		"a unit drains every 2s": `
			0s         take 3 -> allowed, in use 3, reset 6s, wait 0s
			1s         take 2 -> allowed, in use 5, reset 9s, wait 1s
			1s         take 1 -> denied, in use 5, reset 9s, wait 1s
			1s         take 3 -> denied, in use 5, reset 9s, wait 5s
			1s         take 5 -> denied, in use 5, reset 9s, wait 9s
			1s         take 6 -> denied, in use 5, reset 9s, wait never
			1.999999s  take 1 -> denied, in use 5, reset 8.000001s, wait 1µs
			2s         take 0 -> allowed, in use 4, reset 8s, wait 0s
			2s         take 1 -> allowed, in use 5, reset 10s, wait 2s
			11.999999s take 0 -> allowed, in use 1, reset 1µs, wait 0s
			12s        take 5 -> allowed, in use 5, reset 10s, wait 2s`,
		"what is charged above the maximum drains first": `
			0s  take 4   -> allowed, in use 4, reset 8s, wait 0s
			0s  charge 9 -> charged 6, in use 10, reset 20s, wait 12s
			1s  charge 1 -> charged 0, in use 10, reset 19s, wait 11s
			1s  take 0   -> allowed, in use 10, reset 19s, wait 11s
			1s  take 5   -> denied, in use 10, reset 19s, wait 19s
			12s take 1   -> allowed, in use 5, reset 10s, wait 2s`,
		"units of the last taking are returned, and what is left of an earlier one": `
			0s take 2                -> allowed, in use 2, reset 4s, wait 0s
			1s take 2                -> allowed, in use 4, reset 7s, wait 0s
			2s return 1 of 2 from 1s -> returned 1, in use 2, reset 4s, wait 0s
			2s return 2 of 2 from 0s -> returned 1, in use 1, reset 1s, wait 0s
			2s take 1                -> allowed, in use 2, reset 3s, wait 0s
			2s return 1 of 1 from 0s -> returned 0, in use 2, reset 3s, wait 0s
			2s return 9 of 9 from 2s -> returned 2, in use 0, reset 0s, wait 0s
			3s return 5 of 5 from 2s -> returned 0, in use 0, reset 0s, wait 0s
			3s return 5 of 5 from 4s -> returned 0, in use 0, reset 0s, wait 0s`,
		"a key that is not found takes its units now": `
			4s  inherit 5 -> inherited, in use 5, reset 10s, wait 2s
			14s take 0    -> allowed, in use 0, reset 0s, wait 0s`,
	} {
		t.Run(name, func(t *testing.T) {
			specify(t, limits.TokenBucket(rate, 5), table)
			specify(t, limits.LeakyBucket(rate, 5), table)
		})
	}
}

// A unit drains every 333⅓ µs.
func TestBucketOfFractions(t *testing.T) {
	specify(t, limits.TokenBucket(limits.Per(3, time.Millisecond), 2), `
		0s    take 1 -> allowed, in use 1, reset 334µs, wait 0s
		0s    take 1 -> allowed, in use 2, reset 667µs, wait 334µs
		0s    take 1 -> denied, in use 2, reset 667µs, wait 334µs
		333µs take 1 -> denied, in use 2, reset 334µs, wait 1µs
		334µs take 1 -> allowed, in use 2, reset 666µs, wait 333µs
		667µs take 1 -> allowed, in use 2, reset 667µs, wait 333µs
		1s    take 0 -> allowed, in use 0, reset 0s, wait 0s`)
	// What is left of a unit after 333 µs is ⅓ µs.
	specify(t, limits.TokenBucket(limits.Per(3, time.Millisecond), 4), `
		0s    take 1                -> allowed, in use 1, reset 334µs, wait 0s
		333µs take 3                -> allowed, in use 4, reset 1.001ms, wait 1µs
		333µs return 1 of 1 from 0s -> returned 1, in use 3, reset 1ms, wait 0s`)
}

func TestBucketOfTheLargestNumbers(t *testing.T) {
	// A unit drains every 31622.4 µs.
	specify(t, limits.TokenBucket(limits.Per(1_000_000_000, 366*24*time.Hour), 1_000_000_000), `
		0s               take 1000000000   -> allowed, in use 1000000000, reset 8784h0m0s, wait 31.623ms
		0s               charge 2000000000 -> charged 1000000000, in use 2000000000, reset 17568h0m0s, wait 8784h0m0.031623s
		31.622ms         take 1000000000   -> denied, in use 2000000000, reset 17567h59m59.968378s, wait 17567h59m59.968378s
		31.623ms         take 0            -> allowed, in use 1999999999, reset 17567h59m59.968377s, wait 8784h0m0s
		8784h0m0.031623s take 1            -> allowed, in use 1000000000, reset 8784h0m0s, wait 31.622ms`)
	// A bucket drains within 100 years, whatever is charged.
	specify(t, limits.TokenBucket(limits.Per(1, 366*24*time.Hour), 99), `
		0s    take 99  -> allowed, in use 99, reset 869616h0m0s, wait 8784h0m0s
		0s    charge 1 -> charged 0, in use 99, reset 869616h0m0s, wait 8784h0m0s
		1800h charge 1 -> charged 1, in use 100, reset 876600h0m0s, wait 15768h0m0s`)
}

// A leaky queue returns only units of its last taking, and tells how long those before it drain.
func TestQueue(t *testing.T) {
	k := newKey(limits.LeakyQueue(limits.Per(5, 10*time.Second), 5))
	for _, test := range []struct {
		table string
		n     int64
		delay time.Duration
	}{
		{"0s take 2                -> allowed, in use 2, reset 4s, wait 0s", 2, 0},
		{"1s take 1                -> allowed, in use 3, reset 5s, wait 0s", 1, 3 * time.Second},
		{"1s take 1                -> allowed, in use 4, reset 7s, wait 0s", 1, 5 * time.Second},
		{"2s return 2 of 2 from 0s -> returned 0, in use 3, reset 6s, wait 0s", 1, 5 * time.Second},
		{"2s return 1 of 1 from 1s -> returned 1, in use 2, reset 4s, wait 0s", 1, 3 * time.Second},
	} {
		specifyKey(t, k, test.table)
		if got := k.Queued(k.used, test.n); got != test.delay {
			t.Errorf("%s: queued %v, want %v", test.table, got, test.delay)
		}
	}
	other := newKey(limits.LeakyBucket(limits.Per(5, 10*time.Second), 5))
	specifyKey(t, other, "0s take 5 -> allowed, in use 5, reset 10s, wait 2s")
	if got := other.Queued(other.used, 1); got != 0 {
		t.Errorf("a bucket that is no queue: queued %v", got)
	}
}

// levelAt returns the level of a bucket: the time in which it drains. It counts in parts of 1/q µs,
// of which a unit has p, so it is exact. found has the levels that each taking found.
func levelAt(k *key, h history, now int64) (level int64, found []int64) {
	at := now
	for _, one := range append(h[:len(h):len(h)], taking{at: now}) {
		if drained := one.at - at; drained > level/k.q {
			level = 0
		} else if drained > 0 {
			level -= drained * k.q
		}
		found = append(found, level)
		level, at = level+one.left, one.at
	}
	return level, found
}

func bucketInUse(k *key, h history, now int64) int64 {
	level, _ := levelAt(k, h, now)
	return (level + k.p - 1) / k.p
}

func bucketParts(k *key) int64 { return k.p }

func TestBucketByItsDefinition(t *testing.T) {
	follow(t, model{
		inUse: bucketInUse,
		parts: bucketParts,
		returns: func(k *key, h history, i int, n int64) int64 {
			switch since := h.last() - h[i].at; {
			case since == 0:
				return n
			case k.Queues || since > n/k.q:
				return 0
			default:
				return n - since*k.q
			}
		},
	}, func(random *rand.Rand) limits.Limit {
		rate, burst := anyRate(random), 1+random.Int64N(12)
		if random.IntN(3) == 0 { // large numbers, of which parts are still an int64
			rate = limits.Per(1+random.Int64N(1e9), time.Duration(1000+random.Int64N(1e9))*time.Microsecond)
			burst = 1 + random.Int64N(1e9)
		}
		all := []limits.Limit{limits.TokenBucket(rate, burst), limits.LeakyBucket(rate, burst),
			limits.LeakyQueue(rate, burst)}
		return all[random.IntN(3)]
	})
}
