package redisbackend_test

import (
	"fmt"
	"strings"
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

// Who could choose the slot of a state could aim all load at one server.
func TestKeysDoNotChooseTheirSlot(t *testing.T) {
	b := redisbackend.MustNewBare(newClient(t, "127.0.0.1:1"), redisbackend.BareOptions{})
	for _, c := range []struct{ scope, key string }{
		{"per-client", "{x}%d"}, {"per-client", "%d{x}"}, {"odd{scope", "}%d"}, {"odd{scope", "x}%d"},
		{"GET /items/{id}", "%d"},
	} {
		slots := make(map[uint16]bool)
		for i := range 100 {
			slots[redisbackend.SlotOf(redisbackend.Name(b, c.scope, fmt.Sprintf(c.key, i)))] = true
		}
		if len(slots) < 90 {
			t.Errorf("scope %q: 100 keys such as %q have %d slots", c.scope, c.key, len(slots))
		}
	}
	want := "weir:{}:8:by-route:GET /items/{id}"
	if got := redisbackend.Name(b, "by-route", "GET /items/{id}"); got != want {
		t.Errorf("got %q, want the documented %q", got, want)
	}
}

// The states of one key lie together, those of different keys do not, and no key says where.
func TestScopesTogetherHaveOneSlotForEachKey(t *testing.T) {
	b := redisbackend.MustNewBare(
		newClient(t, "127.0.0.1:1"), redisbackend.BareOptions{Together: []string{"rate", "odd{scope"}},
	)
	for _, key := range []string{"k%d", "{x}%d", "%d{x}", "}%d", strings.Repeat("long", 50) + "%d"} {
		slots, names := make(map[uint16]bool), make(map[string]bool)
		for i := range 100 {
			key := fmt.Sprintf(key, i)
			one, other := redisbackend.Name(b, "rate", key), redisbackend.Name(b, "odd{scope", key)
			apart := redisbackend.Name(b, "apart", key)
			if redisbackend.SlotOf(one) != redisbackend.SlotOf(other) {
				t.Fatalf("%q and %q have two slots", one, other)
			}
			slots[redisbackend.SlotOf(one)] = true
			names[one], names[other], names[apart] = true, true, true
		}
		if len(slots) < 90 || len(names) != 300 {
			t.Errorf("100 keys such as %q have %d slots and %d names in three scopes", key, len(slots), len(names))
		}
	}
	if got, want := redisbackend.Name(b, "rate", "ann"), "weir:{49915e0d7d4b402e}:4:rate:ann"; got != want {
		t.Errorf("got %q, want the documented %q", got, want)
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
