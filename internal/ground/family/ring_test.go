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

// A unit drains in 1s, and each slice is 1s.
func TestRing(t *testing.T) {
	for name, table := range map[string]string{
		"a refund is worth the least level that was found since": `
			0s take 5                -> allowed, in use 5, reset 5s, wait 0s
			1s take 1                -> allowed, in use 5, reset 5s, wait 0s
			4s take 1                -> allowed, in use 3, reset 3s, wait 0s
			5s return 4 of 5 from 0s -> returned 2, in use 0, reset 0s, wait 0s`,
		"a return lowers what others have found": `
			0s take 5                -> allowed, in use 5, reset 5s, wait 0s
			1s take 4                -> allowed, in use 8, reset 8s, wait 0s
			3s take 1                -> allowed, in use 7, reset 7s, wait 0s
			3s return 4 of 4 from 1s -> returned 4, in use 3, reset 3s, wait 0s
			3s return 5 of 5 from 0s -> returned 2, in use 1, reset 1s, wait 0s`,
		"units of the last taking are returned": `
			0s take 2                -> allowed, in use 2, reset 2s, wait 0s
			1s take 3                -> allowed, in use 4, reset 4s, wait 0s
			3s return 3 of 3 from 1s -> returned 2, in use 0, reset 0s, wait 0s`,
		"what was taken before the bucket was empty has drained": `
			0s take 2                -> allowed, in use 2, reset 2s, wait 0s
			3s take 5                -> allowed, in use 5, reset 5s, wait 0s
			4s take 1                -> allowed, in use 5, reset 5s, wait 0s
			4s return 2 of 2 from 0s -> returned 0, in use 5, reset 5s, wait 0s`,
		"what is older than all slices has drained": `
			0s take 9                -> allowed, in use 9, reset 9s, wait 0s
			4s take 5                -> allowed, in use 10, reset 10s, wait 1s
			8s take 1                -> allowed, in use 7, reset 7s, wait 0s
			8s return 9 of 9 from 0s -> returned 0, in use 7, reset 7s, wait 0s
			8s return 5 of 5 from 4s -> returned 5, in use 2, reset 2s, wait 0s`,
	} {
		t.Run(name, func(t *testing.T) {
			specifyKey(t, newRingKey(limits.TokenBucket(limits.PerSecond(1), 10), 8*time.Second), table)
		})
	}
}

// A ring that began after a taking does not know what that is worth.
func TestARingThatBeganLaterReturnsNothingOfBefore(t *testing.T) {
	k := newKey(limits.TokenBucket(limits.PerSecond(1), 10))
	specifyKey(t, k, "0s take 5 -> allowed, in use 5, reset 5s, wait 0s")
	k.lasts = 8_000_000
	specifyKey(t, k, `
		1s take 2                -> allowed, in use 6, reset 6s, wait 0s
		2s take 2                -> allowed, in use 7, reset 7s, wait 0s
		2s return 5 of 5 from 0s -> returned 0, in use 7, reset 7s, wait 0s
		2s return 2 of 2 from 1s -> returned 2, in use 5, reset 5s, wait 0s`)
	k.ring.Restart(begin+3_000_000, 0)
	specifyKey(t, k, `
		4s take 1                -> allowed, in use 4, reset 4s, wait 0s
		4s return 2 of 2 from 2s -> returned 0, in use 4, reset 4s, wait 0s`)
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
