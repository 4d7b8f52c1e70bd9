package redisbackend

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend/internal/line"
)

// answering is a client whose scripts are answered by a function.
type answering struct {
	redis.Scripter
	answer func(ctx context.Context, digest string, keys int) error // nil: each key has the reply 0
}

func (c *answering) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	if err := c.answer(ctx, digest, len(keys)); err != nil {
		cmd.SetErr(err)
		return cmd
	}
	cmd.SetVal(fmt.Sprint(args[0], strings.Repeat(" 0", len(keys))))
	return cmd
}

func silence(ctx context.Context, _ string, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// Where all calls that endings may have are under way, a probe of an ending had no job.
func TestAProbeOfEndingsHasJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := MustNewBare(&answering{answer: silence}, BareOptions{HashTag: "one"})
		line.SetMaxCalls(b.servers.lines, 1)
		e := backends.Ending{
			Scope: "s", Key: "k", Limit: limits.LeakyBucket(limits.PerDay(1), 10), Taken: 2, Final: 1, Ticket: 1,
		}
		settle := func() { _ = b.Settle(context.Background(), []backends.Ending{e}, make([]limits.Settlement, 1)) }
		go settle()
		time.Sleep(600 * time.Millisecond) // so the server is down
		go settle()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		charges := []backends.Charge{{Scope: "s", Key: "k", Limit: e.Limit, Cost: 1}}
		err := b.Take(ctx, charges, make([]limits.Decision, 1))
		if err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%v, want that there is no answer", err)
		}
		time.Sleep(10 * time.Second)
	})
}

// They had been queued again and again, and were sent before all takings once the server was back.
func TestRenewalsDoNotPileUpWhileAServerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const units = 2000
		b := MustNewBare(&answering{answer: silence}, BareOptions{HashTag: "one", HoldTime: minHoldTime})
		for i := range units {
			b.holds.add(idRange{key: HeldName(b, "s", fmt.Sprint(i)), first: b.servers.encoder.Issue(1), count: 1})
		}
		for range 5 {
			time.Sleep(minHoldTime)
			if n := line.Waiting(b.servers.lines); n > units {
				t.Errorf("%d renewals of %d units wait", n, units)
			}
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// A renewal takes nearly as long as a call may: it arrives after the first release, and must not after
// the second.
func TestTheSecondReleaseIsLaterThanAnyRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Bool
		b := MustNewBare(&answering{answer: func(ctx context.Context, digest string, _ int) error {
			if digest != renewScript.Digest {
				held.Store(false)
				return nil
			}
			select {
			case <-time.After(line.LongestCall - time.Millisecond):
				held.Store(true)
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}, BareOptions{HashTag: "one", HoldTime: minHoldTime})
		id := b.servers.encoder.Issue(1)
		b.holds.add(idRange{key: HeldName(b, "s", "k"), first: id, count: 1})
		held.Store(true)
		time.Sleep(minHoldTime/3 + b.holds.slack() + time.Millisecond) // the renewal has just begun
		e := backends.Ending{Scope: "s", Key: "k", Limit: limits.Concurrent(1), Taken: 1, Ticket: id}
		_ = b.Settle(context.Background(), []backends.Ending{e}, make([]limits.Settlement, 1))
		time.Sleep(3 * line.LongestCall)
		if held.Load() {
			t.Error("the unit of a request that has ended is held")
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}
