package redisbackend_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A pool of go-redis would go on for a second to reply its last error.
func TestAServerThatIsBackIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock") // a port may be another test's
	b := openAt(t, "unix://"+socket+"?pool_size=2")
	redisbackend.WaitForEver(b)
	one := []backends.Charge{charge("s", "k", limits.FixedWindow(limits.PerDay(10)), 1)}
	for i := range 5 {
		err := b.Take(t.Context(), one, make([]limits.Decision, 1))
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("request %d: %v, want a dial that fails", i+1, err)
		}
	}
	startRedis(t, "--unixsocket", socket)
	until(t, "the server listens", func() bool {
		conn, err := net.Dial("unix", socket)
		return err == nil && conn.Close() == nil
	})
	ok(t, b.Take(t.Context(), one, make([]limits.Decision, 1)))
}

// A pool with MinIdleConns dials in the background, and keeps what has failed.
func TestNoDialThatHasFailedIsKeptForLater(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("go-redis does not check idle connections there")
	}
	socket := filepath.Join(t.TempDir(), "redis.sock")
	b := openAt(t, "unix://"+socket+"?pool_size=10&min_idle_conns=5")
	redisbackend.WaitForEver(b)
	decide := func() error {
		c := charge("s", "k", limits.FixedWindow(limits.PerDay(1000)), 1)
		return b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1))
	}
	if decide() == nil {
		t.Error("no server has decided")
	}
	pool := redisbackend.Client(b).(*redis.Client)
	until(t, "the pool is full", func() bool { return pool.PoolStats().IdleConns >= 5 })
	startRedis(t, "--unixsocket", socket)
	until(t, "the server listens", func() bool {
		conn, err := net.Dial("unix", socket)
		return err == nil && conn.Close() == nil
	})
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if err := decide(); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
}
