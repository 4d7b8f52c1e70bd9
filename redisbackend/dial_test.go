package redisbackend_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// A pool of go-redis would go on for a second to reply its last error.
func TestAServerThatIsBackIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "redis.sock") // unlike a port, it is nobody else's
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
