package redisbackend_test

import (
	"math"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// BenchmarkTake measures a plain decision: one request at a time, of one key. By the server's own
// count script-µs is the time in its script, and of-empty compares that with a script that does
// nothing, in the same run. Both are the least of the times for so many: other programs run on the
// machine.
func BenchmarkTake(b *testing.B) {
	client := newClient(b, startRedis(b).addr)
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	empty := client.ScriptLoad(b.Context(), "return { 1, 2, 3, 4 }").Val()
	const some = 250
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000), limits.SlidingWindow(limits.PerDay(1_000_000_000)),
	} {
		b.Run(limit.Algorithm().String(), func(b *testing.B) {
			charges, out := []backends.Charge{charge("scope", "198.51.100.7", limit, 1)}, make([]limits.Decision, 1)
			least, leastEmpty := math.Inf(1), math.Inf(1)
			ok(b, backend.Take(b.Context(), charges, out))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				ok(b, backend.Take(b.Context(), charges, out))
				if i%some < some-1 {
					continue
				}
				b.StopTimer()
				least = min(least, scriptTime(b, client))
				ok(b, client.ConfigResetStat(b.Context()).Err())
				keys := []string{"weir:scope=198.51.100.7"}
				for range some {
					ok(b, client.EvalSha(b.Context(), empty, keys, 1, "t1000000/1 1000000 1 1", 1).Err())
				}
				leastEmpty = min(leastEmpty, scriptTime(b, client))
				ok(b, client.ConfigResetStat(b.Context()).Err())
				b.StartTimer()
			}
			b.ReportMetric(least, "script-µs")
			b.ReportMetric(least/leastEmpty, "of-empty")
		})
	}
}
