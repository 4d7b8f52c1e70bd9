package redisbackend_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/limits/limitstest"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

func TestOnMiniredisItKeepsTheContract(t *testing.T) {
	testrun.NeedsMiniredis(t)
	t.Parallel()
	server := miniredis.RunT(t)
	limitstest.Run(t, harness(server.Addr(), 1200))
}

func TestOnRedisItKeepsTheContract(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	limitstest.Run(t, harness(server.addr, 8000))
}

// harness opens backends that have nothing in common but the server. decisions is the
// number of a full run.
func harness(addr string, decisions int) limitstest.Harness {
	return limitstest.Harness{
		Open: func(t testing.TB, now func() time.Time) backends.Backend {
			return redisbackend.HoldForEver(bareAt(newClient(t, addr), now))
		},
		Decisions: sized(decisions),
	}
}

func newClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	const patient = time.Minute // the machine may be slow
	client := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialTimeout: patient, ReadTimeout: patient,
		WriteTimeout: patient, PoolTimeout: patient,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// Wrappers hand on decisions, tickets and ends as they are. Denials are not remembered
// here: those of a cache say so.
func TestThroughABreakerAndADenialCacheItKeepsTheContract(t *testing.T) {
	testrun.FullOnly(t, "the suite again, through wrappers")
	t.Parallel()
	server := startRedis(t)
	h := harness(server.addr, 2000)
	open := h.Open
	h.Open = func(t testing.TB, now func() time.Time) backends.Backend {
		guarded := remote.MustNewBreaker(
			open(t, now), remote.BreakerOptions{Budget: time.Hour, Logger: slog.New(slog.DiscardHandler)},
		)
		return remote.MustNewDenialCache(guarded, remote.DenialCacheOptions{MaxAge: time.Nanosecond})
	}
	limitstest.Run(t, h)
}
