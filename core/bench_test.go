package core_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
)

func BenchmarkDecide(b *testing.B) {
	limiter := core.MustNew(core.Config[string]{Rules: []core.Rule[string]{{
		Name:  "per-client",
		Limit: limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000_000),
		Key:   func(key string) (string, error) { return key, nil },
	}}})
	b.ReportAllocs()
	for b.Loop() {
		if o := limiter.Decide(context.Background(), "198.51.100.7"); !o.Allowed() {
			b.Fatal(o.Err())
		}
	}
}

// A denied request, whose key has a line of turns, or none.
func BenchmarkDecideDenied(b *testing.B) {
	for _, reach := range []time.Duration{0, time.Minute} {
		b.Run("MaxPromise="+reach.String(), func(b *testing.B) {
			limiter := core.MustNew(core.Config[string]{MaxPromise: reach, Rules: []core.Rule[string]{{
				Name:  "per-client",
				Limit: limits.TokenBucket(limits.PerSecond(10), 1),
				Key:   func(key string) (string, error) { return key, nil },
			}}})
			b.ReportAllocs()
			for b.Loop() {
				limiter.Decide(context.Background(), "198.51.100.7")
			}
		})
	}
}

// A request with an end, from start to end, beside one that two rates decide.
func BenchmarkStartToEnd(b *testing.B) {
	key := func(key string) (string, error) { return key, nil }
	rate := core.Rule[string]{Name: "rate", Limit: limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000_000),
		Key: key}
	other := core.Rule[string]{Name: "other", Limit: limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000_000),
		Key: key}
	held := core.Rule[string]{Name: "held", Limit: limits.Concurrent(100_000), Key: key}
	banned := core.Rule[string]{Name: "ban", Limit: limits.Ban(limits.PerMinute(1_000_000_000), time.Hour), Key: key}
	for _, bench := range []struct {
		name  string
		held  int
		rules []core.Rule[string]
	}{
		{"two-rates", 0, []core.Rule[string]{rate, other}},
		{"concurrent", 0, []core.Rule[string]{held, rate}},
		{"concurrent-1000-held", 1000, []core.Rule[string]{held, rate}},
		{"concurrent-100000-held", 100_000, []core.Rule[string]{held, rate}},
		{"ban", 0, []core.Rule[string]{banned, rate}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			l := core.MustNew(core.Config[string]{Rules: bench.rules})
			for i := range bench.held {
				l.Decide(context.Background(), fmt.Sprint(i))
			}
			b.ReportAllocs()
			for b.Loop() {
				o := l.Decide(context.Background(), "198.51.100.7")
				if !o.Allowed() {
					b.Fatal(o.Err())
				}
				o.End(core.Result{})
			}
		})
	}
}

// BenchmarkBytesOfALimiter reports what a limiter with one rule and a memory of its own, and one client, keeps
// on the heap.
func BenchmarkBytesOfALimiter(b *testing.B) {
	for _, n := range []int{1, 200} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			made := make([]*core.Limiter[request], n)
			before := heap()
			for b.Loop() {
				clear(made)
				for i := range made {
					made[i] = core.MustNew(core.Config[request]{Rules: []core.Rule[request]{{
						Name: "per-user", Limit: limits.SlidingWindow(limits.PerMinute(5)), Key: byUser,
					}}})
					made[i].Decide(b.Context(), request{user: "ann"})
				}
			}
			b.ReportMetric(float64(heap()-before)/float64(n), "B/limiter")
			runtime.KeepAlive(made)
		})
	}
}

// heap returns the bytes of live objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first leaves what is in pools
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
