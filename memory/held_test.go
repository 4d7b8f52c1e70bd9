package memory_test

import (
	"fmt"
	"testing"

	"github.com/weir-go/weir/internal/proof/asking"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// Units of many keys of one shard come and go at random. A map says how many are held.
func TestUnitsThatAreHeldAreThoseTakenAndNotReleased(t *testing.T) {
	random := testrun.Random(t)
	limit := limits.Concurrent(5)
	for _, keys := range []int{3, 50, 4000} {
		m := memory.MustNew(memory.Options{MaxKeys: 100})
		held := make(map[string]int64)
		for i := range 20 * keys {
			key := fmt.Sprint(random.IntN(keys))
			n := random.Int64N(4)
			out := make([]limits.Decision, 1)
			if err := m.Take(t.Context(), []backends.Charge{{Scope: "s", Key: key, Limit: limit, Cost: n}}, out); err != nil {
				t.Fatal(err)
			}
			if allowed := held[key]+n <= 5; out[0].Allowed != allowed {
				t.Fatalf("%d keys, step %d: %d units on top of %d: allowed %v, want %v", keys, i, n, held[key], out[0].Allowed,
					allowed)
			}
			if out[0].Allowed && n > 0 {
				held[key] += n
			}
			if out[0].Remaining != 5-held[key] {
				t.Fatalf("%d keys, step %d: %d remain of 5 with %d held", keys, i, out[0].Remaining, held[key])
			}
			if other := fmt.Sprint(random.IntN(keys)); held[other] > 0 {
				n := 1 + random.Int64N(held[other])
				asking.Settle(t, m, backends.Ending{Scope: "s", Key: other, Limit: limit, Taken: n})
				if held[other] -= n; held[other] == 0 {
					delete(held, other)
				}
			}
			if i%keys == 0 {
				if count, err := m.Count(t.Context()); err != nil || count != len(held) {
					t.Fatalf("%d keys, step %d: Count %d, %v, want %d", keys, i, count, err, len(held))
				}
			}
		}
	}
}
