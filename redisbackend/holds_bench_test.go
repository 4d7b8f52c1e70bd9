package redisbackend_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// BenchmarkHold compares what Redis spends on the start and the end of a request that is
// held and counted with what it spends on one rate, by its own count: the metric
// script-µs is the time in EVALSHA, TIME and all commands within it included.
func BenchmarkHold(b *testing.B) {
	client := newClient(b, startRedis(b).addr)
	rate := func(i int) backends.Charge {
		return charge("rate", fmt.Sprint(i%100), limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000), 1)
	}
	held := func(i int) backends.Charge { return charge("uploads", fmt.Sprint(i%100), limits.Concurrent(20), 1) }
	for _, c := range []struct {
		name    string
		charges func(int) []backends.Charge
		keep    int // requests of each key that are under way
	}{
		{"one rate", func(i int) []backends.Charge { return []backends.Charge{rate(i)} }, 0},
		{"two rates", func(i int) []backends.Charge {
			return []backends.Charge{rate(i), charge("other", "k", limits.FixedWindow(limits.PerDay(1_000_000_000)), 1)}
		}, 0},
		{"held", func(i int) []backends.Charge { return []backends.Charge{held(i)} }, 0},
		{"held and one rate", func(i int) []backends.Charge { return []backends.Charge{held(i), rate(i)} }, 0},
		{"held and one rate, 15 under way", func(i int) []backends.Charge { return []backends.Charge{held(i), rate(i)} }, 15},
	} {
		b.Run(c.name, func(b *testing.B) {
			backend := newBare(client)
			defer backend.Close()
			for i := range 100 * c.keep {
				take(b, backend, held(i))
			}
			take(b, backend, c.charges(0)...)
			const some = 250 // the least of the times for so many: other programs run on the machine
			start, finish := math.Inf(1), math.Inf(1)
			var ends []backends.Ending
			b.ResetTimer()
			for i := range b.N {
				if i%some == 0 {
					ok(b, client.ConfigResetStat(b.Context()).Err())
				}
				all := c.charges(i)
				if out := take(b, backend, all...); all[0].Limit.Algorithm().Holds() {
					ends = append(ends, ending(all[0], out[0]))
				}
				if i%some == some-1 {
					start = min(start, scriptTime(b, client))
					ok(b, client.ConfigResetStat(b.Context()).Err())
					if ok(b, backend.Settle(b.Context(), ends, make([]limits.Settlement, len(ends)))); ends != nil {
						finish = min(finish, scriptTime(b, client)/some)
					}
					ends = nil
				}
			}
			b.ReportMetric(start, "start-µs")
			if !math.IsInf(finish, 1) {
				b.ReportMetric(finish, "end-µs")
			}
		})
	}
}

// scriptTime is how many microseconds a script takes, by the server's count.
func scriptTime(b *testing.B, client *redis.Client) (us float64) {
	for line := range strings.Lines(client.Info(b.Context(), "commandstats").Val()) {
		if text, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			var calls, usec int
			if _, err := fmt.Sscanf(text, "calls=%d,usec=%d,usec_per_call=%f", &calls, &usec, &us); err != nil {
				b.Fatal(err)
			}
		}
	}
	return us
}
