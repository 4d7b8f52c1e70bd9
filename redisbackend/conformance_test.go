package redisbackend_test

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/core/backendtest"
	"github.com/weir-go/weir/redisbackend"
)

func TestOnMiniredisItKeepsTheContract(t *testing.T) {
	server := miniredis.RunT(t)
	backendtest.Run(t, harness(server.Addr(), 300))
}

func TestOnRedisItKeepsTheContract(t *testing.T) {
	server := startRedis(t)
	backendtest.Run(t, harness(server.addr, 4000))
}

// harness opens backends that have nothing in common but the server.
func harness(addr string, decisions int) backendtest.Harness {
	return backendtest.Harness{
		Open: func(t testing.TB, now func() time.Time) core.Backend {
			return redisbackend.WithClock(redisbackend.New(newClient(t, addr), redisbackend.Options{Prefix: uniquePrefix()}), now)
		},
		Decisions: decisions,
	}
}

func newClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}
