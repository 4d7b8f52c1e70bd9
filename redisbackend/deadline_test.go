package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// silentServer returns the address of a server that accepts connections and says
// nothing, and what has it hang up.
func silentServer(t *testing.T) (addr string, hangUp func()) {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { silent.Close() })
	return silent.Addr().String(), func() { silent.Close() }
}

// Nothing else ends these calls soon: the server accepts connections, as many as
// the pool may have, and says nothing.
func TestADeadlineEndsTheWaitWhateverTheClient(t *testing.T) {
	addr, hangUp := silentServer(t)
	const never = time.Hour
	options := redis.Options{
		Addr: addr, PoolSize: 2, MaxRetries: -1, DialTimeout: never, ReadTimeout: never, WriteTimeout: never,
		PoolTimeout: never,
	}
	without := redis.NewClient(&options)
	options.ContextTimeoutEnabled = true
	with := redis.NewClient(&options)
	stuck := make(chan struct{})
	options.OnConnect = func(context.Context, *redis.Conn) error { <-stuck; return nil }
	connects := redis.NewClient(&options)
	hooked := redis.NewClient(&redis.Options{Addr: addr})
	hooked.AddHook(hook(func(context.Context, redis.Cmder) error { <-stuck; return nil }))
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, DialTimeout: never, ReadTimeout: never})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": addr}, DialTimeout: never, ReadTimeout: never})
	clients := map[string]redis.Scripter{
		"with ContextTimeoutEnabled": with, "without": without, "with OnConnect": connects, "with a hook": hooked,
		"Cluster": cluster, "Ring": ring,
	}
	maps.Copy(clients, pipeliners(t, without))
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
			if !b.HonoursDeadline() {
				t.Error("it does not say that it honours deadlines")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			done := make(chan error)
			for i := range 40 {
				go func() {
					c := charge("s", fmt.Sprint(i%30), everyAlgorithm[0], 1)
					done <- b.Take(ctx, []backends.Charge{c}, make([]limits.Decision, 1))
				}()
			}
			for range 40 {
				select {
				case err := <-done:
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want what says that the time is up", err)
					}
				case <-time.After(time.Minute):
					t.Fatal("it waits for ever")
				}
			}
		})
	}
	close(stuck)
	hangUp() // an auto-pipeliner is closed when its commands have ended
	for _, client := range []interface{ Close() error }{with, without, connects, hooked, cluster, ring} {
		client.Close()
	}
}

// hook is what a hook does instead of a command.
type hook func(context.Context, redis.Cmder) error

func (h hook) DialHook(next redis.DialHook) redis.DialHook     { return next }
func (h hook) ProcessHook(redis.ProcessHook) redis.ProcessHook { return redis.ProcessHook(h) }
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
