package faults

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
)

// steady is of holders for tests in which Redis is well.
var steady = holding{hold: shortHold, onFailure: core.FailClosed, budget: patience}

// What was flushed may run twice until it is put back, and not once more.
func TestHoldsThatWereFlushedArePutBack(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	mine, other := newHolder(newClient(t, s.addr), steady), newHolder(newClient(t, s.addr), steady)
	if n := mine.start(t, atOnce); n != atOnce {
		t.Fatalf("%d are under way, want %d", n, atOnce)
	}
	must(t, s.operator(t).FlushAll(t.Context()))
	other.start(t, 3*atOnce)
	most := underWay(mine, other)
	if most > 2*atOnce {
		exceeded(t, "%d under way, want %d at most: data was lost once", most, 2*atOnce)
	}
	holds(t, other.backend, most) // by renewals
	if n := mine.start(t, 2) + other.start(t, 2); n != 0 {
		exceeded(t, "%d more after what was lost is back", n)
	}
	other.end()
	holds(t, other.backend, atOnce)
	if n := other.start(t, 2); n != 0 {
		exceeded(t, "%d above the limit", n)
	}
	t.Logf("FAULT FLUSHALL while %d of %d are held: %d under way at most, of %d; put back by renewals", atOnce, atOnce,
		most, 2*atOnce)
	mine.end()
	exactAgain(t, other.backend, mine, other)
}

// A replica takes over, and the clients follow. It has what was held if that had been
// replicated.
func TestAReplicaThatTakesOverHasWhatWasReplicated(t *testing.T) {
	for name, replicated := range map[string]bool{"replicated": true, "not replicated": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, replica := startServer(t, "--repl-diskless-sync-delay", "0"), startServer(t)
			var at atomic.Pointer[string] // the server that clients find
			at.Store(&master.addr)
			client := func() *redis.Client {
				options := recommended(master.addr)
				options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, *at.Load())
				}
				client := redis.NewClient(options)
				t.Cleanup(func() { client.Close() })
				return client
			}
			mine, other := newHolder(client(), steady), newHolder(client(), steady)
			operator := replica.operator(t)
			host, port, _ := net.SplitHostPort(master.addr)
			if replicated {
				must(t, operator.Do(t.Context(), "replicaof", host, port))
				eventually(t, "the replica follows", func() bool {
					return strings.Contains(operator.Info(t.Context(), "replication").Val(), "master_link_status:up")
				})
			}
			if n := mine.start(t, atOnce); n != atOnce {
				t.Fatalf("%d are under way, want %d", n, atOnce)
			}
			lost := atOnce
			if replicated {
				lost = 0
				eventually(t, "the units are replicated", func() bool { return len(replica.ends(t)) == atOnce })
			}
			master.kill()
			must(t, operator.Do(t.Context(), "replicaof", "no", "one"))
			at.Store(&replica.addr)
			eventually(t, "the replica decides", func() bool {
				return inRedis(t, other.backend) >= 0
			})
			other.start(t, 3*atOnce)
			most := underWay(mine, other)
			if most > atOnce+lost {
				exceeded(t, "%d under way, want %d at most", most, atOnce+lost)
			}
			holds(t, other.backend, most)
			if n := mine.start(t, 2) + other.start(t, 2); n != 0 {
				exceeded(t, "%d more after the failover", n)
			}
			t.Logf("FAULT failover while %d of %d are held, %s: %d under way at most, of %d", atOnce, atOnce, name, most,
				atOnce+lost)
			mine.end()
			other.end()
			exactAgain(t, other.backend, mine, other)
		})
	}
}
