package redisbackend_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// From the Redis Cluster specification.
func TestSlotsAreThoseOfRedisCluster(t *testing.T) {
	for name, want := range map[string]uint16{
		"":                     0,
		"123456789":            0x31c3,
		"{user1000}.following": 3443,
		"user1000":             3443,
		"foo{{bar}}zap":        4015,
		"foo{}{bar}":           8363,
	} {
		if got := redisbackend.SlotOf(name); got != want {
			t.Errorf("%q: got slot %d, want %d", name, got, want)
		}
	}
}

func TestSlotsAreThoseOfAServer(t *testing.T) {
	t.Parallel()
	client := startClusterNode(t)
	for i := range 200 {
		name := fmt.Sprintf("weir:%d:{scope%d}:key %d", i, i%7, i*i)
		if i%2 == 0 {
			name = fmt.Sprintf("weir:%d:scope:%d{", i, i)
		}
		want, err := client.ClusterKeySlot(t.Context(), name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := redisbackend.SlotOf(name); int64(got) != want {
			t.Errorf("%q: got slot %d, want %d", name, got, want)
		}
	}
}

// In a Cluster one step decides the scopes of a key, so their denials are not Transient.
func TestScopesTogetherAreDecidedInOneStepOfACluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	limit := limits.FixedWindow(limits.Per(1, 365*24*time.Hour))
	for name, together := range map[string][]string{"together": {"rate", "charges"}, "apart": nil} {
		b := redisbackend.MustNewBare(c.client(t), redisbackend.BareOptions{Prefix: uniquePrefix(), Together: together})
		charges := []backends.Charge{
			{Scope: "rate", Key: "ann", Limit: limit, Cost: 1}, {Scope: "charges", Key: "ann", Limit: limit, Cost: 1},
		}
		out := make([]limits.Decision, 2)
		for range 2 {
			if err := b.Take(t.Context(), charges, out); err != nil {
				t.Fatal(err)
			}
		}
		if out[0].Allowed || out[0].Transient != (name == "apart") {
			t.Errorf("%s: the denial is %+v", name, out[0])
		}
	}
}

func ExampleOptions_together() {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"redis-1:6379", "redis-2:6379"}})
	defer cluster.Close()
	backend := redisbackend.MustNewBare(cluster, redisbackend.BareOptions{
		Together: []string{"rate", "uploads"}, // the rules of one user: one step, whatever the number of servers
	})
	defer backend.Close()
}
