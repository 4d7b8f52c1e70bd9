//go:build unix

package redisbackend_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// logged is what a log says.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func TestOneSilentMasterIsDownForItself(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "a server that falls silent")
	c := startCluster(t)
	var addrs []string
	for _, node := range c.nodes() {
		ok(t, node.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
		ok(t, node.ConfigSet(t.Context(), "cluster-replica-no-failover", "yes").Err())
		addrs = append(addrs, node.addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, DisableRoutingPolicies: true,
	})
	defer client.Close()
	var log logged
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b := remote.MustNewBreaker(backend, remote.BreakerOptions{
		Budget: time.Second, // so that a slow machine does not look like a dead server
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	limit := limits.LeakyBucket(limits.PerDay(1), 1000)
	silent := func(key int) bool { // is kept by the last master
		return int(redisbackend.SlotOf(redisbackend.Name(backend, "s", fmt.Sprint(key)))) >= 2*16384/3
	}
	decide := func(key int) error {
		return b.Take(
			context.Background(), []backends.Charge{charge("s", fmt.Sprint(key), limit, 1)}, make([]limits.Decision, 1),
		)
	}
	until(t, "all servers decide", func() bool {
		for key := range 50 {
			if decide(key) != nil {
				return false
			}
		}
		return true
	})

	stopped := c.masters[2].command.Process
	ok(t, stopped.Signal(syscall.SIGSTOP))
	defer stopped.Signal(syscall.SIGCONT)
	var healthy, failed, atOnce, waited atomic.Int64
	var callers sync.WaitGroup
	var next atomic.Int64
	for range 8 {
		callers.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for i := next.Add(1); i < 3000; i = next.Add(1) {
				<-pace.C
				err := decide(int(i))
				switch {
				case !silent(int(i)):
					healthy.Add(1)
					if err != nil {
						failed.Add(1)
						t.Logf("a healthy server: %v", err)
					}
				case err == nil:
					t.Error("a stopped server has decided")
				case strings.Contains(err.Error(), "does not answer, while others may"):
					atOnce.Add(1)
				default:
					waited.Add(1)
				}
			}
		})
	}
	callers.Wait()
	t.Logf("of %d decisions of healthy servers %d failed; of the silent one %d failed at once, %d waited",
		healthy.Load(), failed.Load(), atOnce.Load(), waited.Load())
	if opened := b.Status().Opened; failed.Load() > 0 || opened > 0 {
		t.Errorf("one silent server: %d decisions of others failed, and the breaker opened %d times", failed.Load(), opened)
	}
	if waited.Load() > atOnce.Load()/4 {
		t.Errorf("of the silent server's decisions %d waited, and %d failed at once", waited.Load(), atOnce.Load())
	}
	ok(t, stopped.Signal(syscall.SIGCONT))
	until(t, "all servers decide again", func() bool {
		for key := 10_000; key < 10_050; key++ {
			if decide(key) != nil {
				return false
			}
		}
		return true
	})
	until(t, "the log says both", func() bool {
		return log.count("Redis server down") == 1 && log.count("Redis server answers again") == 1
	})
	if strings.Contains(log.text.String(), "weir:s=") {
		t.Error("a key is in the log")
	}
	for i := range 1003 {
		out := make([]limits.Decision, 1)
		ok(t, backend.Take(t.Context(), []backends.Charge{charge("s", "afterwards", limit, 1)}, out))
		if out[0].Allowed != (i < 1000) {
			t.Fatalf("afterwards, request %d of 1000: %+v", i+1, out[0])
		}
	}
}

// A client asks its servers one after the other. If the first one is silent, others are asked
// besides.
func TestAProcessStartsWhileAMasterIsSilent(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "a server that falls silent")
	c := startCluster(t)
	known := c.client(t)
	names := redisbackend.MustNewBare(known, redisbackend.BareOptions{})
	var own int // a key of another master
	for ; ; own++ {
		master, err := known.MasterForKey(t.Context(), redisbackend.Name(names, "s", fmt.Sprint(own)))
		ok(t, err)
		if master.Options().Addr != c.masters[2].addr {
			break
		}
	}
	stopped := c.masters[2].command.Process
	ok(t, stopped.Signal(syscall.SIGSTOP))
	defer stopped.Signal(syscall.SIGCONT)
	for range 30 { // of which five ask the silent one first
		b := redisbackend.MustNewBare(c.client(t), redisbackend.BareOptions{})
		take(t, b, charge("s", fmt.Sprint(own), limits.LeakyBucket(limits.PerDay(1), 1000), 1))
	}
}
