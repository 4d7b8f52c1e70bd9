package stats_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
	"github.com/weir-go/weir/stats"
)

// The whole stack, as a program has it: what Redis decides, what the denial cache answers,
// what the fallback decides when Redis is away, and what becomes of the ends of requests.
func TestEverySourceOfAStackOnRedisIsCounted(t *testing.T) {
	testrun.NeedsMiniredis(t)
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	defer client.Close()
	counts := stats.New(quietly())
	timed := counts.Backend("redis", redisbackend.MustNewBare(client, redisbackend.BareOptions{}))
	if !timed.HonoursDeadline() {
		t.Error("deadlines are not honoured through the clock")
	}
	stack := remote.MustNewStack(timed, remote.StackOptions{Logger: discard, Budget: 10 * time.Second})
	counts.WatchBreaker("redis", stack.Status)
	api := counts.Limiter("api")
	settled := make(chan limits.Settlement, 8)
	l := core.MustNew(core.Config[request]{
		Backend: stack,
		Rules: []core.Rule[request]{
			{Name: "clients", Limit: limits.SlidingLog(limits.PerHour(4)), Key: byKey, Cost: costOf},
			{Name: "tokens", Limit: limits.FixedWindow(limits.PerDay(1000)), Key: byKey,
				Cost: func(request) int64 { return 10 }, FinalCost: core.SpentCost},
		},
		// Counters are told first, so that they have counted what settled receives.
		Observer: told{api, func(s limits.Settlement) { settled <- s }},
	})
	decide := func(cost int64, want core.Verdict) {
		t.Helper()
		o := l.Decide(context.Background(), request{key: "ann", cost: cost})
		if o.Verdict() != want {
			t.Errorf("%v, %v: want %v", o.Verdict(), o.Err(), want)
		}
		o.Spend("tokens", 3)
		o.End(core.Result{})
		if o.Allowed() {
			<-settled
		}
	}
	decide(3, core.Allowed)
	decide(2, core.Denied) // by Redis
	decide(2, core.Denied) // by the denial cache
	server.Close()
	decide(1, core.Allowed) // by the fallback

	shot := counts.Snapshot()
	clients := shot.Limiters[0].Rules[0]
	for source, want := range map[limits.Source]int64{
		limits.SourcePrimary: 2, limits.SourceDenialCache: 1, limits.SourceFallback: 1,
	} {
		if n := clients.Count(func(d stats.DecisionCount) bool { return d.Source == source }); n != want {
			t.Errorf("%d decisions of %v: want %d", n, source, want)
		}
	}
	if clients.Units != 4 || clients.Binding != 2 {
		t.Errorf("%d units, %d denied: want 4, 2", clients.Units, clients.Binding)
	}
	if got := shot.Limiters[0].Rules[1].Settlements; got.Ended != 2 || got.Returned != 14 || got.Lost != 0 {
		t.Errorf("ends: %+v: want 2, with 14 units returned", got)
	}
	ops := shot.Backends[0].Operations
	if take, settle := ops[0], ops[2]; take.Succeeded.Count() != 2 || take.Failed.Count() != 1 ||
		take.Errors.Other != 1 || settle.Succeeded.Count() != 1 {
		t.Errorf("%d takes, %d failed (%+v), %d settled: want 2, 1, 1", take.Succeeded.Count(), take.Failed.Count(),
			take.Errors, settle.Succeeded.Count())
	}
}

// told is counters, and a function that is called after they have counted an end.
type told struct {
	*stats.Counters
	then func(limits.Settlement)
}

func (o told) ObserveEnd(s limits.Settlement) {
	o.Counters.ObserveEnd(s)
	o.then(s)
}
