package redisbackend_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// Of several servers all are silent, and one key is asked: nobody else's success says
// that it is only this one.
func TestAServerThatIsDownCountsAgainstTheBackendIfNoOtherIsWell(t *testing.T) {
	first, _ := silentServer(t)
	second, _ := silentServer(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{first}, MaxRetries: -1, ContextTimeoutEnabled: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: first}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: second}}},
			}, nil
		},
	})
	defer client.Close()
	b := redisbackend.New(client, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)})
	limit := limits.FixedWindow(limits.PerMinute(10))
	for what, charges := range map[string][]limits.Charge{
		"one key":             {charge("s", "k", limit, 1)},
		"keys of all servers": {charge("s", "k", limit, 1), charge("s", "1", limit, 1), charge("s", "2", limit, 1), charge("s", "3", limit, 1)},
	} {
		var err error
		until(t, "the server is down", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err = b.Take(ctx, charges, make([]limits.Decision, len(charges)))
			return err != nil && strings.Contains(err.Error(), "does not answer, while others may")
		})
		var sparer remote.Sparer
		if errors.As(err, &sparer) {
			t.Errorf("%s: a breaker would not count: %v", what, err)
		}
	}
}
