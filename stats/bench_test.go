package stats_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/stats"
)

var discard = slog.New(slog.DiscardHandler)

func byText(s string) (string, error) { return s, nil }

// outcomes returns outcomes of one and of three rules, allowed and denied.
func outcomes() map[string]core.Outcome {
	generous := limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000)
	rules := []core.Rule[string]{
		{Name: "per-client", Limit: generous, Key: byText},
		{Name: "per-route", Limit: generous, Key: byText},
		{Name: "per-tenant", Limit: generous, Key: byText},
	}
	decide := func(rules ...core.Rule[string]) core.Outcome {
		l := core.MustNew(core.Config[string]{Rules: rules})
		l.Decide(context.Background(), "key")
		return l.Decide(context.Background(), "key")
	}
	denying := rules[0]
	denying.Limit = limits.FixedWindow(limits.PerDay(1))
	return map[string]core.Outcome{
		"one rule": decide(rules[0]), "three rules": decide(rules...), "denied": decide(denying),
	}
}

// BenchmarkObserveDecision measures what counting adds to a decision.
func BenchmarkObserveDecision(b *testing.B) {
	for name, o := range outcomes() {
		counts := stats.New(quietly())
		observe := counts.Limiter("api").ObserveDecision
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				observe(ctx, "key", o)
			}
		})
		b.Run(name+" in parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				o := o
				for pb.Next() {
					observe(ctx, "key", o)
				}
			})
		})
	}
}

// BenchmarkDecide measures decisions with and without counters.
func BenchmarkDecide(b *testing.B) {
	counts := stats.New(quietly())
	for name, observer := range map[string]core.Observer{
		"uncounted": nil,
		"empty":     core.ObserverFuncs[string]{},
		"counted":   counts.Limiter("api"),
	} {
		l := core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{
				{Name: "per-client", Limit: limits.TokenBucket(limits.PerSecond(1_000_000), 1_000_000), Key: byText},
			},
			Observer: observer,
		})
		b.Run(name, func(b *testing.B) {
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				l.Decide(ctx, "key")
			}
		})
	}
}

// BenchmarkSnapshot measures what a scrape of a hundred rules costs.
func BenchmarkSnapshot(b *testing.B) {
	counts := stats.New(quietly())
	var rules []core.Rule[string]
	for i := range 100 {
		rules = append(rules,
			core.Rule[string]{Name: fmt.Sprint("rule ", i), Limit: limits.FixedWindow(limits.PerDay(9)), Key: byText})
	}
	counts.Limiter("api").ObserveLimiter(core.MustNew(core.Config[string]{Rules: rules}))
	for b.Loop() {
		counts.Snapshot()
	}
}
