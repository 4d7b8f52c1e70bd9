package redisbackend_test

import (
	"fmt"
	"testing"

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
	server := startRedis(t, "--cluster-enabled", "yes")
	client := newClient(t, server.addr)
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
	b := redisbackend.New(newClient(t, "127.0.0.1:1"), redisbackend.Options{})
	for _, c := range []struct{ scope, key string }{
		{"per-client", "{x}%d"}, {"per-client", "%d{x}"}, {"odd{scope", "}%d"}, {"odd{scope", "x}%d"}, {"GET /items/{id}", "%d"},
	} {
		slots := make(map[uint16]bool)
		for i := range 100 {
			slots[redisbackend.SlotOf(redisbackend.Name(b, c.scope, fmt.Sprintf(c.key, i)))] = true
		}
		if len(slots) < 90 {
			t.Errorf("scope %q: 100 keys such as %q have %d slots", c.scope, c.key, len(slots))
		}
	}
	if got, want := redisbackend.Name(b, "by-route", "GET /items/{id}"), "weir:{}:8:by-route:GET /items/{id}"; got != want {
		t.Errorf("got %q, want the documented %q", got, want)
	}
}
