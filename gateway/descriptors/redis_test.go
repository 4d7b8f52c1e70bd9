package descriptors_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/redisbackend"
)

// onRedis is a backend on a server in the bubble.
type onRedis struct {
	*redisbackend.Backend
	client *redis.Client
	server *miniredis.Miniredis
}

func startRedis(t *testing.T) *onRedis {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	first, err := server.Dial() // after which it serves others
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	behind := server.Server() // read once: a client may still dial while the server closes
	client := redis.NewClient(&redis.Options{
		Addr: "198.51.100.1:6379", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			client, served := net.Pipe()
			behind.ServeConn(served)
			return client, nil
		},
	})
	return &onRedis{
		redisbackend.MustNew(client, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)}),
		client,
		server,
	}
}

func (r *onRedis) end() {
	r.Backend.Close()
	r.client.Close()
	r.server.Close()
	time.Sleep(2 * time.Second) // of the bubble, until goroutines of the client see that it is closed
}
