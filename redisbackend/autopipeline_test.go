package redisbackend_test

import (
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
)

// pipeliners returns both faces of a client's auto-pipeliner: one that waits for
// its replies, and one whose replies wait.
func pipeliners(t *testing.T, client redis.UniversalClient) map[string]redis.Scripter {
	t.Helper()
	clients := map[string]redis.Scripter{}
	for name, method := range map[string]string{"blocking": "AutoPipeline", "deferred": "AsyncAutoPipeline"} {
		if pipeliner, exists, err := pipelinerOf(client, method); exists {
			ok(t, err)
			clients[name] = pipeliner
		}
	}
	return clients
}

// pipelinerOf calls a method that clients have from go-redis 9.22 on, and reports
// whether it exists.
func pipelinerOf(client redis.UniversalClient, method string) (pipeliner redis.Scripter, exists bool, err error) {
	m := reflect.ValueOf(client).MethodByName(method)
	if !m.IsValid() {
		return nil, false, nil
	}
	results := m.Call(nil)
	err, _ = results[1].Interface().(error)
	return results[0].Interface().(redis.Scripter), true, err
}

func TestThroughAnAutoPipelinerItKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	clients := pipeliners(t, newClient(t, server.addr))
	if len(clients) == 0 {
		t.Skip("this go-redis has no auto-pipeliner: .ci/full newest tests with one that has")
	}
	// A type that hides an auto-pipeliner is asked by all commands.
	type wrapper struct{ redis.UniversalClient }
	clients["deferred, in a wrapper"] = wrapper{clients["deferred"].(redis.UniversalClient)}
	for name, pipeliner := range clients {
		t.Run(name, func(t *testing.T) {
			limitstest.Run(t, limitstest.Harness{
				Open: func(_ testing.TB, now func() time.Time) backends.Backend {
					b := redisbackend.MustNewBare(pipeliner, redisbackend.BareOptions{Prefix: uniquePrefix(), HashTag: "one server"})
					return redisbackend.HoldForEver(redisbackend.WithClock(b, now))
				},
				Decisions: 100,
			})
		})
	}
}

func TestScriptsThatAreFlushedUnderLoadLoseNothing(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	client := newClient(t, server.addr)
	clients := pipeliners(t, client)
	clients["plain"] = client
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			const callers, calls, most = 32, 40, 100
			b := newBare(client)
			c := charge("s", "k", limits.LeakyBucket(limits.PerDay(1), most), 1) // nothing drains meanwhile
			var admitted atomic.Int64
			var all sync.WaitGroup
			admin := newClient(t, server.addr)
			for i := range callers {
				all.Go(func() {
					for j := range calls {
						if i == 0 {
							if err := admin.ScriptFlush(t.Context()).Err(); err != nil {
								t.Error(err)
							}
						}
						out := make([]limits.Decision, 1)
						if err := b.Take(t.Context(), []backends.Charge{c}, out); err != nil {
							t.Errorf("call %d: %v", j, err)
							return
						}
						if out[0].Allowed {
							admitted.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := admitted.Load(); n != most {
				t.Errorf("%d were admitted, want %d", n, most)
			}
		})
	}
}
