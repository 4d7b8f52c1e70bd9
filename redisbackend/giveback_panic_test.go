package redisbackend_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// A hook that panics when the client gives back ends that give-back, not the
// process; one that is slow has the next ones wait, and none is lost.
func TestAHookThatMisbehavesInAGiveBackHarmsNobodyElse(t *testing.T) {
	ring := startRing(t)
	var panics, gaveBack atomic.Int64
	hook := giveBackHook(func(cmd redis.Cmder) {
		if n := gaveBack.Add(1); n%2 == 0 {
			panics.Add(1)
			panic("a bug in a hook")
		}
		runtime.Gosched()
	})
	ok(t, ring.ForEachShard(t.Context(), func(_ context.Context, shard *redis.Client) error {
		shard.AddHook(hook)
		return nil
	}))
	b := redisbackend.New(ring, redisbackend.Options{Prefix: uniquePrefix()})
	spent := charge("spent", "k", limits.FixedWindow(limits.PerDay(1)), 1)
	ok(t, b.Take(t.Context(), []limits.Charge{spent}, make([]limits.Decision, 1)))
	const callers = 200
	done := make(chan error)
	for i := range callers {
		go func() {
			out := make([]limits.Decision, 8)
			charges := []limits.Charge{spent}
			for j := range 7 { // on either shard
				charges = append(charges, charge("other", fmt.Sprint(i, " ", j), limits.FixedWindow(limits.PerDay(1)), 1))
			}
			done <- b.Take(context.Background(), charges, out)
		}()
	}
	for range callers {
		ok(t, <-done)
	}
	redisbackend.WaitForGiveBacks(b)
	if panics.Load() == 0 || gaveBack.Load() < callers {
		t.Errorf("%d give-backs, %d of them panicked", gaveBack.Load(), panics.Load())
	}
	ok(t, b.Take(t.Context(), []limits.Charge{charge("after", "k", limits.FixedWindow(limits.PerDay(1)), 1)}, make([]limits.Decision, 1)))
}

// giveBackHook is called before each give-back: a script with one key, the second of
// whose arguments says what to give back.
type giveBackHook func(redis.Cmder)

func (h giveBackHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h giveBackHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "eval") && len(args) == 6 && args[2] == 1 {
			if what, _ := args[5].(string); strings.HasPrefix(what, "g ") {
				h(cmd)
			}
		}
		return next(ctx, cmd)
	}
}

func (h giveBackHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
