package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

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
