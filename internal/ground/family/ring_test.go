package family

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
)

func newRingKey(limit limits.Limit, lasts time.Duration) *key {
	k := newKey(limit)
	k.lasts = lasts.Microseconds()
	return k
}

// A ring that began after a taking does not know what that is worth.
func TestARingThatBeganLaterReturnsNothingOfBefore(t *testing.T) {
	k := newKey(limits.TokenBucket(limits.PerSecond(1), 10))
	specify(t, k, "0s take 5 -> allowed, in use 5, reset 5s, window 5s")
	k.lasts = 8_000_000
	specify(t, k, `
		1s take 2                -> allowed, in use 6, reset 6s, window 4s
		2s take 2                -> allowed, in use 7, reset 7s, window 3s
		2s return 5 of 5 from 0s -> returned 0, in use 7, reset 7s, window 3s
		2s return 2 of 2 from 1s -> returned 2, in use 5, reset 5s, window 5s`)
	k.ring.Restart(begin+3_000_000, 0)
	specify(t, k, `
		4s take 1                -> allowed, in use 4, reset 4s, window 6s
		4s return 2 of 2 from 2s -> returned 0, in use 4, reset 4s, window 6s`)
}

func TestARingIsForChargesThatLastAsLong(t *testing.T) {
	r := NewRing(begin, 8_000)
	for lasts, want := range map[int64]bool{0: true, 7_992: false, 7_993: true, 8_000: true, 8_001: false} {
		if got := r.Spans(lasts); got != want {
			t.Errorf("8000µs, %dµs: %v, want %v", lasts, got, want)
		}
	}
	if r.Restart(begin, 80_000); !r.Spans(80_000) || r.Spans(8_000) {
		t.Error("the width stayed")
	}
}

// A taking is worth at most the least level that others have found since.
func TestRingByItsDefinition(t *testing.T) {
	follows(t, model{
		inUse:  bucketInUse,
		parts:  bucketParts,
		atMost: true,
		returns: func(k *key, h history, i int, n int64) int64 {
			worth, found := levelAt(k, h, h.last())
			for _, level := range append(found[i+1:len(h)], n) {
				worth = min(worth, level)
			}
			return worth
		},
	}, func(random *rand.Rand) *key {
		rate := anyRate(random)
		return newRingKey(limits.TokenBucket(rate, 1+random.Int64N(50)),
			time.Duration(1+random.Int64N(int64(10*rate.Period))))
	})
}
