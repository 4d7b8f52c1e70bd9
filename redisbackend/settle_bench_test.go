package redisbackend_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits/backends"
)

// statsOf is how often the server has run a command since its statistics were reset, and for how long.
func statsOf(t testing.TB, client *redis.Client, command string) (calls int, us float64) {
	t.Helper()
	for _, line := range strings.Fields(client.Info(t.Context(), "commandstats").Val()) {
		if _, rest, found := strings.Cut(line, "cmdstat_"+command+":"); found {
			if _, err := fmt.Sscanf(rest, "calls=%d,usec=%f", &calls, &us); err != nil {
				t.Fatal(err)
			}
		}
	}
	return calls, us
}

// BenchmarkSettle settles 128 endings of as many keys in a call.
func BenchmarkSettle(b *testing.B) {
	client := newClient(b, startRedis(b).addr)
	for _, final := range []int64{2, 8} {
		for _, limit := range settled {
			b.Run(fmt.Sprint(strings.ReplaceAll(limit.String(), "/", " in "), ", final ", final), func(b *testing.B) {
				backend := newBare(client)
				var spent float64
				for b.Loop() {
					b.StopTimer()
					var endings []backends.Ending
					for i := range 128 {
						c := lasting("s", fmt.Sprint(i), limit, 5)
						ok(b, backend.Reset(b.Context(), c.Scope, c.Key))
						endings = append(endings, endingOf(c, take(b, backend, c)[0], final))
					}
					ok(b, client.ConfigResetStat(b.Context()).Err())
					b.StartTimer()
					settle(b, backend, endings...)
					b.StopTimer()
					_, us := statsOf(b, client, "evalsha")
					spent += us
					b.StartTimer()
				}
				b.ReportMetric(spent/float64(b.N), "server-µs/op")
			})
		}
	}
}
