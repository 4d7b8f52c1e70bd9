package redisbackend_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// slowReply is a hook that holds up the reply of a script that the server has run.
type slowReply struct {
	armed         atomic.Bool
	replied, read chan struct{}
}

func (h *slowReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *slowReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		err := next(ctx, c)
		if (c.Name() == "evalsha" || c.Name() == "eval") && h.armed.CompareAndSwap(true, false) {
			close(h.replied)
			<-h.read
		}
		return err
	}
}

func (h *slowReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A denial that is on its way does not answer those who ask once units have come back.
func TestNobodyIsDeniedByADenialFromBeforeItAsked(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: startRedis(t).addr, PoolSize: 1, ContextTimeoutEnabled: true})
	defer client.Close()
	h := new(slowReply)
	client.AddHook(h)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	redisbackend.WaitForEver(b)
	// of another process
	other := redisbackend.MustNewBare(newClient(t, client.Options().Addr), redisbackend.BareOptions{})
	daily := limits.FixedWindow(limits.PerDay(1))
	for name, c := range map[string]struct {
		backends.Charge
		free func(backends.Charge, limits.Decision)
	}{
		"reset": {charge("s", "reset", daily, 1), func(c backends.Charge, _ limits.Decision) {
			ok(t, other.Reset(t.Context(), c.Scope, c.Key))
		}},
		"release": {charge("s", "release", limits.Concurrent(1), 1), func(c backends.Charge, _ limits.Decision) {
			ok(t, newClient(t, client.Options().Addr).Del(t.Context(), redisbackend.HeldName(b, c.Scope, c.Key)).Err())
		}},
		"refund": {lasting("s", "refund", daily, 1), func(c backends.Charge, d limits.Decision) {
			settle(t, other, endingOf(c, d, 0))
		}},
	} {
		taken := take(t, b, c.Charge)[0]
		h.replied, h.read = make(chan struct{}), make(chan struct{})
		h.armed.Store(true)
		var callers sync.WaitGroup
		callers.Go(func() {
			if d := take(t, b, c.Charge)[0]; d.Allowed {
				t.Errorf("%s: a second unit was taken: %+v", name, d)
			}
		})
		<-h.replied
		c.free(c.Charge, taken)
		var allowed atomic.Int64
		for i := range 40 {
			callers.Go(func() {
				if take(t, b, c.Charge)[0].Allowed {
					allowed.Add(1)
				}
			})
			until(t, "it waits", func() bool { return redisbackend.Waiting(b) > i })
		}
		close(h.read)
		callers.Wait()
		if n := allowed.Load(); n != 1 {
			t.Errorf("%s: %d of 40 were allowed, want 1", name, n)
		}
	}
}
