package redisbackend_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// startSentinel starts a Sentinel that watches a master under the name
// "limits" and takes it for dead once it has not answered for a second.
func startSentinel(t *testing.T, master *redisServer) *redisServer {
	t.Helper()
	host, port, err := net.SplitHostPort(master.addr)
	ok(t, err)
	addr := freeAddr(t)
	_, own, err := net.SplitHostPort(addr)
	ok(t, err)
	config := filepath.Join(t.TempDir(), "sentinel.conf") // which it rewrites
	ok(t, os.WriteFile(config, fmt.Appendf(nil, `
		port %s
		bind 127.0.0.1
		sentinel monitor limits %s %s 1
		sentinel down-after-milliseconds limits 1000
		sentinel failover-timeout limits 5000
	`, own, host, port), 0o600))
	return startServer(t, addr, config, "--sentinel")
}

func TestSentinelsFailoverKeepsWhatWasReplicated(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "servers that fail")
	testFailover(t, func(master *redisServer, _ *redis.SentinelClient) error {
		master.kill()
		return nil
	})
}

// The old master goes on deciding until the client hears of the new one, a second later. What it
// takes meanwhile is lost.
func TestAPlannedFailoverLosesWhatTheOldMasterStillTakes(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "servers that fail")
	testFailover(t, func(_ *redisServer, admin *redis.SentinelClient) error {
		return admin.Failover(t.Context(), "limits").Err()
	})
}

// testFailover has Sentinel make the replica of a master the master, under load.
func testFailover(t *testing.T, cause func(master *redisServer, admin *redis.SentinelClient) error) {
	t.Helper()
	const limit = 20
	master := startRedis(t, "--repl-diskless-sync-delay", "0")
	host, port, err := net.SplitHostPort(master.addr)
	ok(t, err)
	replica := startRedis(t, "--replicaof", host, port)
	follower := newClient(t, replica.addr)
	until(t, "the replica follows", func() bool {
		return strings.Contains(follower.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinel := startSentinel(t, master)
	admin := redis.NewSentinelClient(&redis.Options{Addr: sentinel.addr})
	defer admin.Close()
	until(t, "Sentinel knows the replica", func() bool {
		replicas := admin.Replicas(t.Context(), "limits").Val()
		return len(replicas) == 1 && replicas[0]["flags"] == "slave" && replicas[0]["master-link-status"] == "ok"
	})

	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "limits", SentinelAddrs: []string{sentinel.addr}, ContextTimeoutEnabled: true, DialerRetries: 1,
	})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	ok(t, b.Check(t.Context()))
	slow := limits.LeakyBucket(limits.PerDay(1), limit)
	group := func(key int) []backends.Charge {
		return []backends.Charge{charge("a", fmt.Sprint(key), slow, 1), charge("b", fmt.Sprint(key), slow, 1)}
	}
	for range limit {
		take(t, b, group(30_000)...)
	}
	for _, scope := range []string{"a", "b"} {
		name := redisbackend.Name(b, scope, "30000")
		taken := client.Get(t.Context(), name).Val()
		until(t, "the replica has what was taken", func() bool { return follower.Get(t.Context(), name).Val() == taken })
	}

	load := startLoad(t.Context(), b, 60, group)
	load.more(t, 500)
	ok(t, cause(master, admin))
	began := time.Now()
	until(t, "the replica is the master, and decides", func() bool {
		role, _ := follower.Do(t.Context(), "ROLE").Slice()
		return len(role) > 0 && role[0] == "master" &&
			b.Take(t.Context(), group(20_000), make([]limits.Decision, 2)) == nil
	})
	t.Logf("the replica decides after %v", time.Since(began).Round(100*time.Millisecond))
	if former := newClient(t, master.addr); former.Ping(t.Context()).Err() == nil {
		until(t, "the old master is a replica", func() bool {
			role, _ := former.Do(t.Context(), "ROLE").Slice()
			return len(role) > 0 && role[0] == "slave"
		})
		t.Logf("the old master is a replica after %v", time.Since(began).Round(100*time.Millisecond))
	}
	load.more(t, 300)
	load.end()

	most, above := load.most(limit)
	t.Logf(
		"%d calls; at most %d of %d admitted, of %d keys more than %d; errors: %v", load.calls.Load(), most, limit, above,
		limit, load.errors,
	)
	if most > 2*limit {
		t.Errorf("%d of %d were admitted where data was lost at most once, want at most %d", most, limit, 2*limit)
	}
	if d := take(t, b, group(30_000)...); d[0].Allowed || d[1].Allowed {
		t.Errorf("a key that was spent, and replicated: %+v", d)
	}
	for i := range limit + 3 {
		if d := take(t, b, group(10_000)...); d[0].Allowed != (i < limit) {
			t.Errorf("afterwards: call %d of %d: %+v", i+1, limit, d[0])
		}
	}
	ok(t, b.Check(t.Context()))
}
