package descriptors_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
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

	closing sync.Mutex // held by a dial
	closed  bool
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
	r := &onRedis{server: server}
	r.client = redis.NewClient(&redis.Options{
		Addr: "198.51.100.1:6379", MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			r.closing.Lock()
			defer r.closing.Unlock()
			if r.closed {
				return nil, net.ErrClosed
			}
			client, served := net.Pipe()
			server.Server().ServeConn(served)
			return client, nil
		},
	})
	r.Backend = redisbackend.MustNew(r.client, redisbackend.Options{Logger: slog.New(slog.DiscardHandler)})
	return r
}

func (r *onRedis) end() {
	r.Backend.Close()
	r.client.Close()
	r.closing.Lock()
	r.closed = true // a client may still dial
	r.closing.Unlock()
	r.server.Close()
	time.Sleep(2 * time.Second) // of the bubble, until goroutines of the client see that it is closed
}
