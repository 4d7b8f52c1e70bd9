package memory

import (
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrun"
	"github.com/weir-go/weir/limits"
)

// A coarse floor says of every limit that it stands for, at every instant, that at
// least as much is in use as the floors of the limits do.
func TestACoarseFloorCreditsNobody(t *testing.T) {
	random := testrun.Random(t)
	for range 2000 {
		start := int64(1_767_225_600_000_000) + random.Int64N(100_000_000)
		var c coarseFloor
		var floors []floor
		for i := range 1 + random.IntN(5) {
			rate := limits.Per(1+random.Int64N(20), time.Duration(1+random.Int64N(20_000))*time.Millisecond)
			choices := []limits.Limit{
				limits.TokenBucket(rate, 1+random.Int64N(30)), limits.LeakyQueue(rate, 1+random.Int64N(30)),
				limits.FixedWindow(rate), limits.SlidingWindow(rate), limits.SlidingLog(rate),
			}
			k := &scopedLimit{compiledLimit: compileLimit(choices[random.IntN(len(choices))]), id: uint16(i + 1), scopeHash: 7}
			var f floor
			for range 1 + random.IntN(3) { // keys that were displaced
				var s view
				at := start + random.Int64N(2_000_000)
				k.fresh(&s, at)
				k.take(&s, 1+random.Int64N(k.max))
				if k.algorithm == limits.AlgorithmSlidingWindow {
					s.b = uint32(random.Int64N(k.max + 1))
				}
				one := k.flatten(&s)
				if f.limit != nil {
					one = k.larger(f.state, one)
				}
				f = floor{k, one}
			}
			c.raise(k, &f.state, k.freshAt(&f.state))
			floors = append(floors, f)
		}
		for range 50 {
			now := start - 1_000_000 + random.Int64N(30_000_000)
			for _, f := range floors {
				var s view
				f.limit.advanceFloor(&f.limit.compiledLimit, &s, f.state, now)
				used, coarse := f.limit.used(&s), int64(0)
				if c.until > now {
					coarse = c.used(&f.limit.compiledLimit, now)
				}
				if coarse < used {
					t.Fatalf("%v: %d in use %dus after the start, at most %d by the coarse floor %+v of %+v", f.limit.given, used, now-start, coarse, c, f.state)
				}
			}
		}
	}
}
