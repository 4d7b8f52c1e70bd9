package redisbackend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/memory"
)

// Turns follow from decisions, so those of Redis are those of memory. Two processes that know of each
// other promise every other turn.
func TestTurnsInRedisAreThoseInMemory(t *testing.T) {
	server := startRedis(t)
	noon := time.Date(2026, 11, 21, 12, 0, 20, 0, time.UTC)
	clock := func() time.Time { return noon }
	inMemory := memory.MustNew(memory.Options{Clock: clock})
	inRedis := bareAt(newClient(t, server.addr), clock)
	turns := func(b backends.Backend, limit limits.Limit, name string, instances int) (told string) {
		l := core.MustNew(core.Config[string]{Backend: b, Instances: instances, MaxPromise: 24 * time.Hour,
			Rules: []core.Rule[string]{{Name: name, Limit: limit,
				Key: func(key string) (string, error) { return key, nil }}}})
		for range 8 {
			o := l.Decide(t.Context(), "ann")
			told += fmt.Sprint(o.Turn().Round(time.Millisecond), " ")
		}
		return told
	}
	for i, limit := range []limits.Limit{
		limits.TokenBucket(limits.PerMinute(3), 2), limits.LeakyBucket(limits.PerMinute(3), 2),
		limits.LeakyQueue(limits.PerMinute(3), 2), limits.FixedWindow(limits.PerMinute(2)),
		limits.SlidingWindow(limits.PerMinute(2)), limits.SlidingLog(limits.PerMinute(2)),
		limits.AnchoredWindow(limits.PerMinute(2)), limits.Calendar(2, limits.Day),
	} {
		name := fmt.Sprint("rule", i)
		if got, want := turns(inRedis, limit, name, 0), turns(inMemory, limit, name, 0); got != want {
			t.Errorf("%v: %s in Redis, %s in memory", limit, got, want)
		}
	}
	got := turns(inRedis, limits.TokenBucket(limits.PerMinute(3), 2), "two processes", 2)
	if want := "0s 0s 20s 1m0s 1m40s 2m20s 3m0s 3m40s "; got != want {
		t.Errorf("two processes: %s, want %s", got, want)
	}
}
