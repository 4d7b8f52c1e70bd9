package redisbackend_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

func TestCheckFindsWhatIsWrongWithACluster(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "a Cluster that changes")
	c := startCluster(t)
	client := c.client(t)
	ctx := t.Context()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	tagged := redisbackend.MustNewBare(client, redisbackend.BareOptions{HashTag: "limits"})
	for name, b := range map[string]*redisbackend.Bare{"plain": b, "tagged": tagged} {
		if err := b.Check(ctx); err != nil {
			t.Errorf("%s: a cluster as it should be: %v", name, err)
		}
	}
	// finds fails unless the error of Check has want and names the masters.
	finds := func(t *testing.T, want string, masters ...*clusterNode) {
		t.Helper()
		for name, b := range map[string]*redisbackend.Bare{"plain": b, "tagged": tagged} {
			err := b.Check(ctx)
			if err == nil {
				t.Errorf("%s: no error", name)
				continue
			}
			for _, master := range masters {
				if !strings.Contains(err.Error(), master.addr) || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: got %v, want %q of %s", name, err, want, master.addr)
				}
			}
		}
	}

	t.Run("scripts are forbidden", func(t *testing.T) {
		for _, master := range c.masters[:2] {
			ok(t, master.ACLSetUser(ctx, "default", "-evalsha", "-eval").Err())
			defer master.ACLSetUser(ctx, "default", "+evalsha", "+eval")
		}
		finds(t, "NOPERM", c.masters[:2]...)
	})
	t.Run("writes are refused", func(t *testing.T) {
		ok(t, c.masters[1].ConfigSet(ctx, "min-replicas-to-write", "2").Err())
		defer c.masters[1].ConfigSet(ctx, "min-replicas-to-write", "0")
		finds(t, "NOREPLICAS", c.masters[1])
	})
	t.Run("servers evict", func(t *testing.T) {
		for _, master := range c.masters {
			ok(t, master.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
			defer master.ConfigSet(ctx, "maxmemory-policy", "noeviction")
		}
		finds(t, redisbackend.ErrEvicts.Error(), c.masters...)
		if err := b.Check(ctx); !errors.Is(err, redisbackend.ErrEvicts) {
			t.Errorf("got %v, want ErrEvicts", err)
		}
	})
	ok(t, b.Check(ctx)) // all is well again

	t.Run("a slot is nobody's", func(t *testing.T) {
		// all waits until every node says so, which forgets the slot again if it
		// has been told of it by one that had not yet forgotten.
		all := func(says string) {
			t.Helper()
			until(t, "all say "+says, func() bool {
				so := true
				for _, node := range c.nodes() {
					_ = node.Do(ctx, "cluster", "delslots", 100).Err()
					info := node.ClusterInfo(ctx).Val()
					so = so && strings.Contains(info, says) && strings.Contains(info, "cluster_slots_ok:16383")
				}
				return so
			})
		}
		all("cluster_state:fail")
		finds(t, `cluster_state is "fail"`, c.masters...)
		for _, node := range c.nodes() {
			ok(t, node.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err())
		}
		all("cluster_state:ok")
		finds(t, "16383 of 16384", c.masters...)
	})
}

func TestCheckFindsWhatIsWrongWithARing(t *testing.T) {
	t.Parallel()
	servers := []*redisServer{startRedis(t), startRedis(t), startRedis(t)}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:              map[string]string{"a": servers[0].addr, "b": servers[1].addr, "c": servers[2].addr},
		HeartbeatFrequency: 10 * time.Millisecond, DialerRetries: 1,
	})
	defer ring.Close()
	b := redisbackend.MustNewBare(ring, redisbackend.BareOptions{})
	if err := b.Check(t.Context()); err != nil {
		t.Errorf("a Ring as it should be: %v", err)
	}
	for _, server := range servers[1:] {
		ok(t, newClient(t, server.addr).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	}
	err := b.Check(t.Context())
	if !errors.Is(err, redisbackend.ErrEvicts) || !strings.Contains(err.Error(), servers[1].addr) ||
		!strings.Contains(err.Error(), servers[2].addr) {
		t.Errorf("got %v, want what is wrong with two shards", err)
	}
	for down, server := range servers {
		server.kill()
		until(t, "the Ring has noticed", func() bool { return ring.Len() == 2-down })
		if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "of 3 shards are up") {
			t.Errorf("%d shards are down: got %v", down+1, err)
		}
	}
}

// A server that speaks the protocol of Redis has a clock that stands still in scripts
// (dragonflydb/dragonfly#2555): nothing would ever come back.
func TestCheckRefusesAClockThatStandsStillOrIsFarOff(t *testing.T) {
	now := time.Now()
	if err := redisbackend.JudgeClock(now, now); err == nil || !strings.Contains(err.Error(), "the clock stands still") {
		t.Errorf("it stands still: %v", err)
	}
	for off, want := range map[time.Duration]string{
		time.Hour: "", 25 * time.Hour: "the clock is 25h0m0s off", -25 * time.Hour: "the clock is 25h0m0s off",
	} {
		err := redisbackend.JudgeClock(now.Add(off), now.Add(off+time.Millisecond))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v off: %v", off, err)
		}
	}
}

// A plain client of a node of a Cluster would fail for most keys, and a server that knows the script
// says nothing of EVAL.
func TestCheckFindsWhatWouldFailLater(t *testing.T) {
	t.Parallel()
	node := startSoleNode(t)
	client := redis.NewClient(&redis.Options{Addr: node.addr})
	defer client.Close()
	if err := redisbackend.MustNewBare(client, redisbackend.BareOptions{}).Check(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "use a redis.ClusterClient") {
		t.Errorf("a node of a Cluster: %v", err)
	}
	ok(t, node.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	inCluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{node.addr}, DisableRoutingPolicies: true})
	defer inCluster.Close()
	b := redisbackend.MustNewBare(inCluster, redisbackend.BareOptions{})
	ok(t, b.Check(t.Context()))
	ok(t, node.Do(t.Context(), "ACL", "SETUSER", "default", "-eval").Err())
	if err := b.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "allow the user +eval") {
		t.Errorf("without EVAL: %v", err)
	}
}

// What the section server of INFO has on servers that speak like Redis.
func TestCheckNamesWhatItFound(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]string{
		"Redis 7.0.15": "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n",
		"Valkey 8.1.1": "# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\n" +
			"valkey_version:8.1.1\r\nserver_mode:cluster\r\navailability_zone:\r\n",
		"KeyDB 6.3.4":        "# Server\r\nredis_version:6.3.4\r\navailability_zone:\r\nfeatures:cluster_mget\r\n",
		"Dragonfly df-v1.30": "# Server\r\nredis_version:7.4.0\r\ndragonfly_version:df-v1.30\r\n",
		"Garnet 1.0.60":      "# Server\r\ngarnet_version:1.0.60\r\nredis_version:7.4.3\r\n",
	} {
		if got := redisbackend.Product(info); got != want {
			t.Errorf("%s is named %s", want, got)
		}
	}
	client := newClient(t, startRedis(t).addr)
	ok(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	err := redisbackend.MustNewBare(client, redisbackend.BareOptions{}).Check(t.Context())
	if !errors.Is(err, redisbackend.ErrEvicts) ||
		!regexp.MustCompile(`check: [A-Z][A-Za-z]+ [0-9.]+: maxmemory`).MatchString(err.Error()) {
		t.Errorf("got %v, want one that names the server", err)
	}
}

// Errors of decisions say what to do.
func TestErrorsOfDecisionsSayWhatToDo(t *testing.T) {
	t.Parallel()
	client := newClient(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	c := charge("per-client", "secret", limits.FixedWindow(limits.PerDay(10)), 1)
	fails := func(want string) {
		t.Helper()
		err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want one with %q and without the key", err, want)
		}
	}
	ok(t, client.SAdd(t.Context(), redisbackend.Name(b, c.Scope, c.Key), "x").Err())
	fails(`scope "per-client": WEIR a key holds a value of another type`)
	ok(t, b.Reset(t.Context(), c.Scope, c.Key))
	take(t, b, c)
	ok(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
	fails("raise maxmemory")
	ok(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	ok(t, client.Do(t.Context(), "ACL", "SETUSER", "default", "-time").Err())
	fails("Backend.Check says what to allow")
}
