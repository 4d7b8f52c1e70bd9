package redisbackend_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/proof/testrun"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// muted is a connection that sends nothing while told to.
type muted struct {
	net.Conn
	mute *atomic.Bool
}

func (c *muted) Write(p []byte) (int, error) {
	if c.mute.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// twoMasters returns a client of a Cluster of two masters, each with half of the slots. The
// second one is silent while mute is set.
func twoMasters(t *testing.T) (client *redis.ClusterClient, mute *atomic.Bool) {
	t.Helper()
	mute = new(atomic.Bool)
	first, second := startRedis(t).addr, startRedis(t).addr
	client = redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{first}, MaxRetries: -1, ContextTimeoutEnabled: true,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if strings.HasSuffix(second, addr) { // a client of a Cluster leaves out loopback addresses
				conn = &muted{conn, mute}
			}
			return conn, err
		},
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{
				{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: first}}},
				{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: second}}},
			}, nil
		},
	})
	t.Cleanup(func() { client.Close() })
	return client, mute
}

// One server of several was silent, and endings for the others had used up their time
// before they were sent.
func TestEndingsDoNotWaitForAnotherServerThatIsSilent(t *testing.T) {
	t.Parallel()
	testrun.FullOnly(t, "a server that falls silent")
	client, mute := twoMasters(t)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	redisbackend.WaitFor(b, time.Second)
	isSilent := func(name string) bool { return redisbackend.SlotOf(name) >= 8192 }
	window := limits.FixedWindow(limits.PerDay(10))
	const keys = 400
	endings := func() (all []backends.Ending, silent []bool) {
		for i := range keys {
			c := lasting("rate", fmt.Sprint(i), window, 3)
			h := charge("uploads", fmt.Sprint(i), limits.Concurrent(5), 1)
			if i%10 > 0 {
				all = append(all, endingOf(c, take(t, b, c)[0], 1))
				silent = append(silent, isSilent(redisbackend.Name(b, c.Scope, c.Key)))
				continue
			}
			all = append(all, ending(h, take(t, b, h)[0]))
			silent = append(silent, isSilent(redisbackend.HeldName(b, h.Scope, h.Key)))
		}
		return all, silent
	}
	all, _ := endings()
	settle(t, b, all...) // the servers learn the scripts
	all, silent := endings()
	again, silentAgain := endings()
	mute.Store(true)
	expect := func(all []backends.Ending, silent []bool) (refused bool) {
		t.Helper()
		healthy := 0
		for i, s := range settle(t, b, all...) {
			switch holds := all[i].Limit.Algorithm().Holds(); {
			case holds && silent[i]:
				continue // released later
			case holds:
				if n := held(t, b, charge("uploads", all[i].Key, all[i].Limit, 0)); n > 1 {
					t.Errorf("%d are held after the end", n)
				}
			case silent[i]:
				if s.Err == nil {
					t.Errorf("settled by a silent server: %+v", s)
				} else if strings.Contains(s.Err.Error(), "does not answer") {
					refused = true
				}
			case s.Err != nil:
				t.Fatalf("an ending of the other server: %v", s.Err)
			default:
				healthy++
			}
		}
		if healthy < keys/4 {
			t.Errorf("%d endings of the other server", healthy)
		}
		return refused
	}
	expect(all, silent)
	until(t, "endings are not sent to the silent server", func() bool {
		return expect(again, silentAgain) // the second time they return nothing
	})
	mute.Store(false)
	c := lasting("rate", "x", window, 1)
	until(t, "both servers settle", func() bool {
		for i := range 20 {
			c.Key = fmt.Sprint("x", i)
			out := make([]limits.Decision, 1)
			if b.Take(t.Context(), []backends.Charge{c}, out) != nil || settle(t, b, endingOf(c, out[0], 0))[0].Err != nil {
				return false
			}
		}
		return true
	})
}
