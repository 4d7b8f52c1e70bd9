package faults

import (
	"log/slog"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/redisbackend"
)

// beating returns backends that count each other, one for each kind of client.
func beating(t *testing.T, addr string) (fleet []*redisbackend.Backend) {
	t.Helper()
	single := func() *redis.Client {
		return redis.NewClient(&redis.Options{Addr: addr, DialerRetries: 1, ContextTimeoutEnabled: true})
	}
	for _, client := range []redis.UniversalClient{
		single(), single(), single(),
		redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": addr}, DialerRetries: 1}),
	} {
		b, err := redisbackend.New(client, redisbackend.Options{
			Heartbeat: true, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close(); client.Close() })
		fleet = append(fleet, b)
	}
	return fleet
}

// Processes count each other on a real server. It is killed, and each admits its share. It comes back
// without data, and no process takes itself for the only one.
func TestProcessesThatBeatFallBackToTheirShares(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	fleet := beating(t, s.addr)
	count := func() (n int) { // how many processes know how many there are
		for _, b := range fleet {
			if b.Instances() == len(fleet) {
				n++
			}
		}
		return n
	}
	eventually(t, "all count each other", func() bool { return count() == len(fleet) })
	s.kill()
	admitted := 0
	for i, b := range fleet {
		limiter := core.MustNew(core.Config[string]{
			Rules: []core.Rule[string]{{Name: "shared", Limit: limit, Key: self}}, Backend: b,
		})
		for range 2 * units {
			o := limiter.Decide(t.Context(), "client")
			if source := o.At(0).Source; source != limits.SourceFallback {
				t.Errorf("process %d: %v by %v", i, o.Verdict(), source)
			}
			if o.Allowed() {
				admitted++
			}
		}
	}
	if want := len(fleet) * ((units + len(fleet) - 1) / len(fleet)); admitted != want {
		t.Errorf("%d admitted, want %d: a share each, rounded up", admitted, want)
	}
	s.restart(t)
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer client.Close()
	eventually(t, "all are back in the set", func() bool {
		if n := count(); n != len(fleet) {
			t.Fatalf("only %d of %d processes know how many there are", n, len(fleet))
		}
		return client.ZCard(t.Context(), "weir:instances").Val() >= int64(len(fleet))
	})
	t.Logf("FAULT kill -9, Heartbeat, %d processes: %d admitted of a limit of %d, all by fallbacks", len(fleet),
		admitted, units)
}
