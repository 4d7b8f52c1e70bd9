package weirprom_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
	"github.com/weir-go/weir/shed"
	"github.com/weir-go/weir/stats"
	"github.com/weir-go/weir/stats/weirprom"
)

// self is the key of requests that are their own keys.
func self(key string) (string, error) { return key, nil }

// newStats returns counters that log nothing.
func newStats() *stats.Stats {
	return stats.New(stats.Options{Logger: slog.New(slog.DiscardHandler)})
}

// newWorld returns the registry of a program that uses all there is: rules of several
// kinds, a backend that times, a breaker, a memory and a policy.
func newWorld(t testing.TB) (*prometheus.Registry, *core.Limiter[string], *stats.Stats) {
	s := newStats()
	counts := s.Limiter("api")
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // no key drains, and no day ends, however long a test takes
	store := memory.MustNew(memory.Options{Clock: func() time.Time { return noon }})
	limiter, err := core.New(core.Config[string]{
		Rules: []core.Rule[string]{
			{Name: "per-client", Limit: limits.FixedWindow(limits.PerDay(3)), Key: self},
			{Name: "next", Limit: limits.TokenBucket(limits.PerDay(1), 1), Key: self, Mode: core.Shadow},
			{Name: "at-once", Limit: limits.Concurrent(100), Key: self},
			{Name: "tokens", Limit: limits.SlidingWindow(limits.PerDay(1_000_000)), Key: self,
				Cost: func(string) int64 { return 10 }, FinalCost: core.SpentCost},
			{Name: "queue", Limit: limits.LeakyQueue(limits.PerSecond(1000), 100_000), Key: self},
			{Name: "by-plan", LimitFor: func(string, string) (limits.Limit, error) {
				return limits.SlidingLog(limits.PerDay(1000)), nil
			}, Key: self},
			{Name: "off", Limit: limits.SlidingLog(limits.PerDay(1000)), Key: self, Mode: core.Disabled},
		},
		Backend:  s.Backend("redis", store),
		Observer: counts,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.WatchMemory("fallback", store)
	s.WatchBreaker("redis", func() backends.BreakerStatus {
		return backends.BreakerStatus{State: "open", Since: time.Now(), Opened: 2}
	})
	s.WatchLeases("redis", func() backends.LeaseCounts {
		return backends.LeaseCounts{
			Keys: 1, Held: 2, BlocksTaken: 3, BlocksDenied: 4, BlocksFailed: 5, UnitsTaken: 60, UnitsReturned: 7,
			UnitsVoid: 8,
		}
	})
	s.WatchShedder("api", newShedder(t, core.Enforce))
	s.WatchShedder("next", newShedder(t, core.Shadow))
	s.WatchPolicy("weir.yaml", broken{})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(weirprom.NewCollector(s))
	return registry, limiter, s
}

// ask has every key ask five times, of which the limit of three a day denies two. One
// request has not ended.
func ask(limiter *core.Limiter[string], keys int) {
	ctx := context.Background()
	for i := range keys {
		key := "client-" + strconv.Itoa(i)
		for range 5 {
			o := limiter.Decide(ctx, key)
			o.Spend("tokens", 4)
			if i > 0 {
				o.End(core.Result{Status: 200})
			}
		}
	}
	ended, end := context.WithCancel(ctx)
	end()
	limiter.Decide(ended, "left")
}

// newShedder returns a shedder with room for two requests, both taken by the class
// critical. It has shed a request of each class, or would have.
func newShedder(t testing.TB, mode core.Mode) *shed.Shedder[int] {
	shedder := shed.MustNew(shed.Options[int]{
		Classes:  []shed.Class{{Name: "critical"}, {Name: "other", Share: 50}},
		Classify: func(class int) int { return class },
		Limit:    2, Mode: mode,
	})
	for _, class := range []int{0, 0, 0, 1} {
		shedder.Acquire(t.Context(), class)
	}
	return shedder
}

// broken is a policy whose file has a mistake.
type broken struct{}

func (broken) Digest() string     { return "0123456789abcdef" }
func (broken) Applied() time.Time { return time.Unix(1000, 0) }
func (broken) Failure() (time.Time, error) {
	return time.Unix(2000, 0), errors.New("weir.yaml:1:1: a mistake")
}
func (broken) Loads() (applied, failed int64) { return 1, 1 }
