package redisbackend_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// lateOnce is a hook in which the process does not run until the time of one script is up.
type lateOnce struct {
	backend *redisbackend.Bare
	armed   atomic.Bool
}

func (h *lateOnce) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *lateOnce) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if !strings.HasPrefix(c.Name(), "eval") || !h.armed.CompareAndSwap(true, false) {
			return next(ctx, c)
		}
		<-ctx.Done()
		redisbackend.RunLate(h.backend)
		c.SetErr(ctx.Err())
		return ctx.Err()
	}
}

func (h *lateOnce) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A request whose call is repeated gets other ids for what it holds, on several slots, too.
func TestARepeatedRequestOverSlotsReleasesWhatItHolds(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: startSoleNode(t).addr, ContextTimeoutEnabled: true})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	h := &lateOnce{backend: b}
	client.AddHook(h)
	other := charge("f", "other", limits.FixedWindow(limits.PerDay(1000)), 1)
	var held backends.Charge
	out := make([]limits.Decision, 2)
	for try := range 100 { // a machine may be so slow that the repeated call takes a second
		for range 4 { // it finds out that there are slots, and that the server is near and answers
			take(t, b, other, charge("x", "1", other.Limit, 1))
		}
		held = charge("c", strconv.Itoa(try), limits.Concurrent(1), 1)
		h.armed.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := b.Take(ctx, []backends.Charge{held, other}, out)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			ok(t, err)
			break
		}
	}
	if h.armed.Load() || !out[0].Allowed {
		t.Fatalf("%+v, and the hook waits for a script: %v", out, h.armed.Load())
	}
	ok(t, b.Settle(t.Context(), []backends.Ending{ending(held, out[0])}, make([]limits.Settlement, 1)))
	redisbackend.WaitForReleases(b)
	if n := client.ZCard(t.Context(), redisbackend.HeldName(b, held.Scope, held.Key)).Val(); n != 0 {
		t.Errorf("%d units are held after the end of the only request", n)
	}
}
