package remote_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/remote"
)

// plenty is a backend that allows at once, and of which much remains. So blocks grow with the
// demand, and nearly all decisions are on leased units.
type plenty struct{}

func (plenty) Take(_ context.Context, _ []backends.Charge, out []limits.Decision) error {
	for i := range out {
		out[i] = limits.Decision{Allowed: true, Remaining: 1 << 40, ResetAfter: time.Second, At: time.Now().UnixMicro()}
	}
	return nil
}

func leasing(limit limits.Limit, cost int64) func() {
	cache := remote.MustNewLeaseCache(plenty{}, remote.LeaseOptions{})
	charges := []backends.Charge{{Scope: "per-client", Key: "198.51.100.7", Limit: limit, Cost: cost}}
	out := make([]limits.Decision, 1)
	return func() { cache.Take(context.Background(), charges, out) }
}

func BenchmarkTakeOfALeasedKey(b *testing.B) {
	take := leasing(limits.TokenBucket(limits.PerSecond(1e9), 1e9), 1)
	b.ReportAllocs()
	for b.Loop() {
		take()
	}
}

// The cost is above the largest block, so the inner backend decides each charge.
func BenchmarkTakeThatNoLeaseFits(b *testing.B) {
	take := leasing(limits.TokenBucket(limits.PerSecond(1000), 1000), 1000)
	b.ReportAllocs()
	for b.Loop() {
		take()
	}
}
