package redisbackend_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/redisbackend"
)

func TestAClientWithContextTimeoutsHonoursDeadlines(t *testing.T) {
	with := redis.NewClient(&redis.Options{ContextTimeoutEnabled: true})
	defer with.Close()
	without := redis.NewClient(&redis.Options{})
	defer without.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true})
	defer cluster.Close()
	ring := redis.NewRing(&redis.RingOptions{ContextTimeoutEnabled: true})
	defer ring.Close()
	awaits := func(o redis.Options) *redis.Client {
		o.ContextTimeoutEnabled = true
		client := redis.NewClient(&o)
		t.Cleanup(func() { client.Close() })
		return client
	}
	pipeliner, err := with.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	defer pipeliner.Close()
	for name, c := range map[string]struct {
		client redis.Scripter
		want   bool
	}{
		"with":           {with, true},
		"without":        {without, false},
		"Cluster":        {cluster, false},
		"Ring":           {ring, false},
		"auto-pipeliner": {pipeliner, false},
		"with OnConnect": {awaits(redis.Options{
			OnConnect: func(context.Context, *redis.Conn) error { return nil },
		}), false},
		"with CredentialsProvider": {awaits(redis.Options{
			CredentialsProvider: func() (string, string) { return "", "" },
		}), false},
		"with CredentialsProviderContext": {awaits(redis.Options{
			CredentialsProviderContext: func(context.Context) (string, string, error) { return "", "", nil },
		}), false},
	} {
		if got := redisbackend.New(c.client, redisbackend.Options{}).HonoursDeadline(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// Nothing ends these calls but their deadline: the server accepts connections,
// as many as the pool may have, and says nothing.
func TestADeadlineEndsTheWaitForConnectionsAndReplies(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	client := redis.NewClient(&redis.Options{
		Addr: silent.Addr().String(), PoolSize: 2, ContextTimeoutEnabled: true,
		DialTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour, PoolTimeout: time.Hour,
	})
	defer client.Close()
	b := redisbackend.New(client, redisbackend.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	done := make(chan error)
	for range 6 {
		go func() {
			done <- b.Take(ctx, []core.Charge{charge("s", "k", everyAlgorithm[0], 1)}, make([]core.Decision, 1))
		}()
	}
	for range 6 {
		var timeout net.Error
		if err := <-done; !errors.Is(err, context.DeadlineExceeded) && !(errors.As(err, &timeout) && timeout.Timeout()) {
			t.Errorf("got %v, want what says that the time is up", err)
		}
	}
}
