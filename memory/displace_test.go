package memory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/memory"
)

// crowded has regulars of one scope keep to half of their limit while ten times
// as many new keys as there are places come in another, and stay live for a day.
// It returns the share of the regulars' requests that was denied, and the share
// of the regulars that were in the store when it was over.
func crowded(t *testing.T, maxKeys, regulars int, limit limits.Limit) (denied, stayed float64) {
	r := newReplay(t, memory.Options{MaxKeys: maxKeys})
	const rounds = 50 // at half of a hundred in a minute: a minute
	flood := 10 * maxKeys / rounds
	n := 0
	for round := range rounds {
		r.now = r.now.Add(1200 * time.Millisecond)
		for i := range max(regulars, flood) {
			if i < flood {
				r.allowed("flood", fmt.Sprint(round, " ", i), limits.FixedWindow(limits.PerDay(1000)))
			}
			if i < regulars && !r.allowed("regular", fmt.Sprint(i), limit) {
				n++
			}
		}
	}
	all, err := r.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range regulars {
		if err := r.Reset(t.Context(), "regular", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	others, err := r.Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return float64(n) / float64(regulars*rounds), float64(all-others) / float64(regulars)
}

func TestAFloodDisplacesItselfAndNotTheRegularsOfAnotherScope(t *testing.T) {
	const maxKeys = 1 << 13
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerMinute(100), 20),
		limits.SlidingWindow(limits.PerMinute(100)),
		limits.SlidingLog(limits.PerMinute(100)),
		limits.AnchoredWindow(limits.PerMinute(100)),
	} {
		// they have a claim to half
		for _, test := range []struct{ places, stay float64 }{{0.1, 0.99}, {0.4, 0.99}, {0.9, 0.7}} {
			if raceEnabled && test.places != 0.4 { // some ten times as slow
				continue
			}
			denied, stayed := crowded(t, maxKeys, int(test.places*maxKeys), limit)
			if denied > 0.001 {
				t.Errorf("%v: %.1f%% of the requests of regulars were denied, who are %v of MaxKeys", limit, 100*denied,
					test.places)
			}
			lasting := limit.Algorithm() != limits.AlgorithmTokenBucket
			if lasting && stayed < test.stay { // those of a bucket are fresh at times
				t.Errorf("%v: %.1f%% of the regulars are in the store, who are %v of MaxKeys", limit, 100*stayed, test.places)
			}
		}
	}
}
