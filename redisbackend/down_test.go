package redisbackend_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
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
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{Logger: slog.New(slog.DiscardHandler)})
	limit := limits.FixedWindow(limits.PerMinute(10))
	for what, charges := range map[string][]backends.Charge{
		"one key": {charge("s", "k", limit, 1)},
		"keys of all servers": {
			charge("s", "k", limit, 1), charge("s", "1", limit, 1), charge("s", "2", limit, 1), charge("s", "3", limit, 1),
		},
	} {
		var err error
		until(t, "the server is down", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			err = b.Take(ctx, charges, make([]limits.Decision, len(charges)))
			return err != nil && strings.Contains(err.Error(), "does not answer, while others may")
		})
		var sparer sparer
		if errors.As(err, &sparer) {
			t.Errorf("%s: a breaker would not count: %v", what, err)
		}
	}
}

// sparer is an error that a breaker may not count.
type sparer interface {
	error
	SparesBackend() bool
}

// pausing is a server that refuses connections while it is away, and its client, a Ring of it
// alone. Both live in a bubble.
type pausing struct {
	server  *miniredis.Miniredis
	ring    *redis.Ring
	backend *redisbackend.Bare

	mu    sync.Mutex
	away  bool
	conns []net.Conn
}

func startPausing(t *testing.T) *pausing {
	t.Helper()
	p := &pausing{server: miniredis.NewMiniRedis()}
	first, err := p.server.Dial() // after which it serves others
	ok(t, err)
	first.Close()
	p.ring = redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"a": "198.51.100.1:6379"}, Dialer: p.dial,
		PoolSize: 1000, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		HeartbeatFn: func(context.Context, *redis.Client) bool { return true },
	})
	p.backend = redisbackend.MustNewBare(p.ring, redisbackend.BareOptions{Logger: slog.New(slog.DiscardHandler)})
	return p
}

func (p *pausing) dial(context.Context, string, string) (net.Conn, error) {
	time.Sleep(time.Millisecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	p.conns = append(p.conns, server)
	p.server.Server().ServeConn(server)
	return client, nil
}

func (p *pausing) goAway() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *pausing) comeBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
}

func (p *pausing) end() {
	p.ring.Close()
	p.server.Close()
	time.Sleep(2 * time.Second) // a client that could not connect looks once a second whether it is closed
}

// ask has n requests ask at the same time. It returns how many were decided, and how many
// failed without having been sent.
func (p *pausing) ask(n int) (decided, unsent int) {
	errs := make(chan error)
	for range n {
		go func() {
			charges := []backends.Charge{charge("s", "k", everyAlgorithm[0], 1)}
			errs <- p.backend.Take(context.Background(), charges, make([]limits.Decision, 1))
		}()
	}
	for range n {
		if err := <-errs; err == nil {
			decided++
		} else if strings.Contains(err.Error(), "does not answer, while others may") {
			unsent++
		}
	}
	return decided, unsent
}

// A server had failed for some milliseconds, or for longer, and nobody asked for a while. The first
// request after that was the probe, and all that came with it failed, though the server was
// back. The time in which nobody asked counted as one in which the server failed.
func TestAServerThatIsBackAfterAPauseDecidesForAll(t *testing.T) {
	for name, tt := range map[string]struct{ fails, pause time.Duration }{
		"it failed for a moment":      {40 * time.Millisecond, 500 * time.Millisecond},
		"it failed until it was down": {400 * time.Millisecond, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := startPausing(t)
				defer p.end()
				if n, _ := p.ask(1); n != 1 {
					t.Fatal("a server that is well does not decide")
				}
				p.goAway()
				for begun := time.Now(); time.Since(begun) < tt.fails; time.Sleep(10 * time.Millisecond) {
					if n, _ := p.ask(1); n != 0 {
						t.Fatal("a server that is away decides")
					}
				}
				time.Sleep(tt.pause)
				p.comeBack()
				if n, _ := p.ask(8); n != 8 {
					t.Errorf("%d of 8 requests are decided, and the server is back", n)
				}
			})
		})
	}
}

// After a pause all requests find out that a server is still away. Then one at a time does so again.
func TestAServerThatIsStillAwayAfterAPauseIsDownAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPausing(t)
		defer p.end()
		if n, _ := p.ask(1); n != 1 {
			t.Fatal("a server that is well does not decide")
		}
		p.goAway()
		for range 40 {
			p.ask(8)
			time.Sleep(10 * time.Millisecond)
		}
		for _, step := range []struct {
			after time.Duration
			want  int
		}{{0, 7}, {900 * time.Millisecond, 7}, {1100 * time.Millisecond, 0}, {200 * time.Millisecond, 7}} {
			time.Sleep(step.after)
			if _, n := p.ask(8); n != step.want {
				t.Errorf("%v later %d of 8 requests are not sent, want %d", step.after, n, step.want)
			}
		}
	})
}
