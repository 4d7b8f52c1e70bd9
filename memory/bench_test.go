package memory_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

var benchLimits = []limits.Limit{
	limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000_000),
	limits.LeakyBucket(limits.PerMinute(1_000_000_000), 1_000_000_000),
	limits.LeakyQueue(limits.PerSecond(1_000_000), 1_000_000_000),
	limits.FixedWindow(limits.PerMinute(1_000_000_000)),
	limits.SlidingWindow(limits.PerMinute(1_000_000_000)),
	limits.AnchoredWindow(limits.PerMinute(1_000_000_000)),
	limits.Calendar(1_000_000_000, limits.Month.In("Europe/Berlin")),
}

func BenchmarkHotKeyAllowed(b *testing.B) {
	for _, limit := range benchLimits {
		b.Run(limit.Algorithm().String(), func(b *testing.B) {
			benchmarkHotKey(b, limit, true)
		})
	}
}

func BenchmarkHotKeyDenied(b *testing.B) {
	for _, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerHour(1), 1),
		limits.FixedWindow(limits.PerDay(1)),
		limits.SlidingWindow(limits.PerDay(1)),
		limits.SlidingLog(limits.PerDay(1)),
	} {
		b.Run(limit.Algorithm().String(), func(b *testing.B) {
			benchmarkHotKey(b, limit, false)
		})
	}
}

func benchmarkHotKey(b *testing.B, limit limits.Limit, allowed bool) {
	m := memory.MustNew(memory.Options{})
	ctx := context.Background()
	charges := []backends.Charge{{Scope: "per-client", Key: "198.51.100.7", Limit: limit, Cost: 1}}
	out := make([]limits.Decision, 1)
	m.Take(ctx, charges, out)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Take(ctx, charges, out); err != nil || out[0].Allowed != allowed {
			b.Fatal(err, out[0])
		}
	}
}

func BenchmarkHotKeyParallel(b *testing.B) {
	m := memory.MustNew(memory.Options{})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		charges := []backends.Charge{{Scope: "per-client", Key: "198.51.100.7", Limit: benchLimits[0], Cost: 1}}
		out := make([]limits.Decision, 1)
		for pb.Next() {
			m.Take(context.Background(), charges, out)
		}
	})
}

func BenchmarkThreeCharges(b *testing.B) {
	m := memory.MustNew(memory.Options{})
	charges := make([]backends.Charge, 3)
	for i := range charges {
		charges[i] = backends.Charge{Scope: fmt.Sprint("scope", i), Key: "198.51.100.7", Limit: benchLimits[4], Cost: 1}
	}
	out := make([]limits.Decision, 3)
	b.ReportAllocs()
	for b.Loop() {
		m.Take(context.Background(), charges, out)
	}
}

func BenchmarkMillionKeys(b *testing.B) {
	const n = 1_000_000
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff)
	}
	m := memory.MustNew(memory.Options{MaxKeys: n})
	limit := limits.TokenBucket(limits.PerHour(10_000), 10_000)
	charges := []backends.Charge{{Scope: "per-client", Limit: limit, Cost: 1}}
	out := make([]limits.Decision, 1)
	for _, key := range keys {
		charges[0].Key = key
		m.Take(context.Background(), charges, out)
	}
	order := make([]uint32, 1<<20)
	for i := range order {
		order[i] = rand.Uint32N(n)
	}
	b.Run("uniform", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			charges[0].Key = keys[order[i&(1<<20-1)]]
			m.Take(context.Background(), charges, out)
		}
	})
	b.Run("uniform-parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			charges := []backends.Charge{{Scope: "per-client", Limit: limit, Cost: 1}}
			out := make([]limits.Decision, 1)
			for i := rand.Int(); pb.Next(); i++ {
				charges[0].Key = keys[order[i&(1<<20-1)]]
				m.Take(context.Background(), charges, out)
			}
		})
	})
}

// A log at its limit, of which a taking leaves with each that comes.
func BenchmarkSlidingLog(b *testing.B) {
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, bench := range []struct {
		name string
		keys int
		memory.Options
	}{
		{"one", 1, memory.Options{}},
		{"ten-thousand", 10_000, memory.Options{}},
		{"short-of-nodes", 10_000, memory.Options{MaxLogEntries: 20_000}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			bench.Clock = func() time.Time { return now }
			m := memory.MustNew(bench.Options)
			keys := make([]string, bench.keys)
			for i := range keys {
				keys[i] = fmt.Sprint(i)
			}
			charges := []backends.Charge{{Scope: "s", Limit: limits.SlidingLog(limits.PerSecond(20)), Cost: 1}}
			out := make([]limits.Decision, 1)
			step := time.Second / 20 / time.Duration(bench.keys)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				charges[0].Key = keys[i%len(keys)]
				m.Take(context.Background(), charges, out)
				now = now.Add(step)
			}
		})
	}
}

// New keys in a store that is full of others.
func BenchmarkFlood(b *testing.B) {
	const n = 1 << 17
	for _, limit := range []limits.Limit{benchLimits[0], benchLimits[4]} {
		b.Run(limit.Algorithm().String(), func(b *testing.B) {
			m := memory.MustNew(memory.Options{MaxKeys: n})
			charges := []backends.Charge{{Scope: "s", Limit: limits.TokenBucket(limits.PerDay(10), 10), Cost: 1}}
			if limit.Algorithm() == limits.AlgorithmSlidingWindow {
				charges[0].Limit = limits.SlidingWindow(limits.PerDay(10))
			}
			out := make([]limits.Decision, 1)
			key := make([]byte, 8)
			i := uint64(0)
			take := func() {
				i++
				binary.LittleEndian.PutUint64(key, i)
				charges[0].Key = string(key)
				m.Take(context.Background(), charges, out)
			}
			for range 3 * n {
				take()
			}
			b.ReportAllocs()
			for b.Loop() {
				take()
			}
		})
	}
}

// What a store costs that nobody uses.
func BenchmarkNewMemory(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		memory.MustNew(memory.Options{})
	}
}

// A store from the first key to MaxKeys, made included. The longest decision is
// that of the best of all rounds: what else the machine does is in the others.
func BenchmarkFill(b *testing.B) {
	for _, n := range []int{1 << 18, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			charges := []backends.Charge{{Scope: "s", Limit: limits.SlidingWindow(limits.PerDay(10)), Cost: 1}}
			out := make([]limits.Decision, 1)
			key := make([]byte, 8)
			least := time.Duration(1<<63 - 1)
			for b.Loop() {
				start := time.Now()
				m := memory.MustNew(memory.Options{MaxKeys: n})
				longest := time.Since(start)
				for i := range n {
					binary.LittleEndian.PutUint64(key, uint64(i))
					charges[0].Key = string(key)
					before := time.Now()
					m.Take(context.Background(), charges, out)
					longest = max(longest, time.Since(before))
				}
				least = min(least, longest)
			}
			b.ReportMetric(float64(least.Microseconds()), "µs-longest")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/key")
		})
	}
}
