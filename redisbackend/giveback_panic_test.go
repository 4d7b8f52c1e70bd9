package redisbackend_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A hook that panics or ends its goroutine when the client gives back ends that give-back, not
// the process. The next ones are sent.
func TestAHookThatMisbehavesInAGiveBackHarmsNobodyElse(t *testing.T) {
	t.Parallel()
	ring := startRing(t)
	var giveBacks atomic.Int64
	ring.AddHook(giveBackHook(func() {
		switch giveBacks.Load() % 3 {
		case 0:
			panic("a bug in a hook")
		case 1:
			runtime.Goexit()
		}
	}))
	b := newBare(ring)
	limit := limits.FixedWindow(limits.PerDay(1))
	spent := charge("spent", "k", limit, 1)
	take(t, b, spent)
	returned := 0
	for i := 0; giveBacks.Load() < 30; i++ {
		group := []backends.Charge{charge("other", fmt.Sprint(i), limit, 1), spent}
		if redisbackend.Apart(b, group...) {
			take(t, b, group...)
			redisbackend.WaitForGiveBacks(b)
			giveBacks.Add(1)
			returned += int(take(t, b, charge("other", fmt.Sprint(i), limit, 0))[0].Remaining)
		}
	}
	if returned != 10 {
		t.Errorf("%d of 30 give-backs returned something, want each third", returned)
	}
}

// giveBackHook is called before each command or pipeline that gives back.
type giveBackHook func()

func (h giveBackHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h giveBackHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if givesBack(cmd) {
			h()
		}
		return next(ctx, cmd)
	}
}

func (h giveBackHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, givesBack) {
			h()
		}
		return next(ctx, cmds)
	}
}

// givesBack reports whether a script has an argument that says what to give back.
func givesBack(cmd redis.Cmder) bool {
	return strings.HasPrefix(cmd.Name(), "eval") && slices.ContainsFunc(cmd.Args(), func(arg any) bool {
		what, _ := arg.(string)
		return strings.HasPrefix(what, "g ")
	})
}
