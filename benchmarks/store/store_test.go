package store_test

import (
	"testing"

	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/benchmarks/workload"
)

// A benchmark of a limiter that does not limit is a benchmark of nothing.
func TestEveryContestantAllowsWhatItsQuotaHolds(t *testing.T) {
	for _, c := range store.Contestants() {
		if c.Kind == store.Harness {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			d := c.Open(store.Ordinary, 0).Decider()
			for _, key := range []string{"203.0.113.7", "203.0.113.8"} {
				for i := range store.Ordinary.Burst {
					if !d.Allow(key) {
						t.Fatalf("request %d of %s: got denied, want allowed", i+1, key)
					}
				}
				if d.Allow(key) {
					t.Errorf("request %d of %s: got allowed, want denied", store.Ordinary.Burst+1, key)
				}
			}
		})
	}
}

func TestEveryContestantKeepsAsManyKeysAsItHasRoomFor(t *testing.T) {
	const keys = 100_000
	for _, c := range store.Contestants() {
		if c.Kind == store.Harness {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			d := c.Open(store.Scarce, keys).Decider()
			for _, allowed := range []bool{true, false} {
				for i := range keys {
					if key := workload.NewKey(i); d.Allow(key) != allowed {
						t.Fatalf("key %d: got allowed %v, want %v", i, !allowed, allowed)
					}
				}
			}
		})
	}
}
