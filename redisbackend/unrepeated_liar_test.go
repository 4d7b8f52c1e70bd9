package redisbackend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// What becomes of a call that a lyingNetwork is sent. Anything else is the error that it replies without
// running the call.
const (
	noConnection = "noConnection" // there is no connection
	garbled      = "garbled"      // the server runs it, and the reply is garbage
	lost         = "lost"         // the server runs it, and the connection breaks
)

// lyingNetwork is a network before a server. It lies about scripts that mention a key, as often as it is told to.
type lyingNetwork struct {
	mu    sync.Mutex
	lies  []string // to come
	key   string
	spare int // connections that it makes before the first lie
}

func (l *lyingNetwork) tell(key string, spare int, lies ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key, l.spare, l.lies = key, spare, lies
}

// next returns the lie about a command, "" for none.
func (l *lyingNetwork) next(command []byte) (lie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lies) == 0 || !bytes.Contains(command, []byte("eval")) || !bytes.Contains(command, []byte(l.key)) {
		return ""
	}
	lie, l.lies = l.lies[0], l.lies[1:]
	return lie
}

// refuses reports whether there is no connection.
func (l *lyingNetwork) refuses() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lies) == 0 || l.lies[0] != noConnection {
		return false
	} else if l.spare > 0 {
		l.spare--
		return false
	}
	l.lies = l.lies[1:]
	return true
}

func (l *lyingNetwork) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l.refuses() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &lyingConn{Conn: conn, network: l}, err
}

type lyingConn struct {
	net.Conn
	network *lyingNetwork
	reply   bytes.Buffer // instead of the server's
	breaks  bool         // with the server's next reply
	garbage string
}

func (c *lyingConn) Write(p []byte) (int, error) {
	switch lie := c.network.next(p); lie {
	case "":
	case garbled, lost:
		c.breaks = true
		if lie == garbled {
			c.garbage = "?garbage\r\n"
		}
	default:
		commands := bytes.Count(p, []byte("evalsha\r\n")) + bytes.Count(p, []byte("asking\r\n"))
		c.reply.WriteString(strings.Repeat("-"+lie+"\r\n", commands))
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *lyingConn) Read(p []byte) (int, error) {
	if c.reply.Len() > 0 {
		return c.reply.Read(p)
	}
	n, err := c.Conn.Read(p)
	if c.breaks && err == nil {
		c.Conn.Close()
		if c.garbage == "" {
			return 0, io.EOF
		}
		return copy(p, c.garbage), nil
	}
	return n, err
}

// lyingCluster is a client of a Cluster of one server, behind a lyingNetwork. Each command has a connection of its own.
func lyingCluster(t *testing.T, addr string) (*redis.ClusterClient, *lyingNetwork) {
	l := new(lyingNetwork)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{addr}, ContextTimeoutEnabled: true, PoolSize: 2, ConnMaxLifetime: time.Nanosecond,
		DialerRetries: 1, Dialer: l.dial,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		},
	})
	t.Cleanup(func() { client.Close() })
	return client, l
}

// A client that sends a pipeline again leaves commands that have no reply the second time the error of the first.
func TestUnitsOfACallThatWasSentTwiceAreReleasedWhateverItsError(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	honest := newClient(t, server.addr)
	looks := redisbackend.MustNewBare(honest, redisbackend.BareOptions{})
	redisbackend.WaitForEver(looks)
	for _, first := range []string{
		"LOADING Redis is loading the dataset in memory", "TRYAGAIN Multiple keys request during rehashing of slot",
		"CLUSTERDOWN The cluster is down", "MOVED 1 " + server.addr, "ASK 1 " + server.addr, noConnection,
	} {
		for _, second := range []string{garbled, lost} {
			for _, several := range []bool{true, false} {
				client, lies := lyingCluster(t, server.addr)
				g := new(gate)
				client.AddHook(g)
				b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
				redisbackend.WaitForEver(b)
				redisbackend.OneCall(b)
				take(t, b, charge("s", "known", limits.Concurrent(1), 1)) // the server knows the script
				var groups [][]backends.Charge
				for i := range 3 {
					if i == 0 || several { // each in a slot of its own
						groups = append(groups, []backends.Charge{charge("lies", fmt.Sprint(i), limits.Concurrent(1), 1)})
					}
				}
				_, errs, wait := queue(t, t.Context(), b, g, groups)
				lies.tell(":lies", 1, first, second)
				g.open()
				wait()
				for i, group := range groups {
					if errs[i] == nil {
						t.Errorf("%s, then %s: no error", first, second)
					}
					what := fmt.Sprintf("%s, then %s, %d requests: nothing is held; the error was %v",
						first, second, len(groups), errs[i])
					until(t, what,
						func() bool { return held(t, looks, group[0]) == 0 })
				}
				if charges, _ := redisbackend.Holding(b); charges != 1 {
					t.Errorf("%s, then %s: the process believes that it holds %d, want 1", first, second, charges)
				}
				ok(t, b.Close())
				ok(t, honest.FlushAll(t.Context()).Err())
			}
		}
	}
}

func TestATakingThatTheClientSentTwiceIsNotSentAThirdTime(t *testing.T) {
	t.Parallel()
	server := startRedis(t)
	for _, first := range []string{
		"LOADING Redis is loading the dataset in memory", "MOVED 1 " + server.addr, "ASK 1 " + server.addr, noConnection,
	} {
		client, lies := lyingCluster(t, server.addr)
		b := newBare(client)
		c := charge("lies", "k", limits.LeakyBucket(limits.PerDay(1), 20), 3)
		take(t, b, c)
		lies.tell(":lies", 0, first, lost)
		if err := b.Take(t.Context(), []backends.Charge{c}, make([]limits.Decision, 1)); err == nil {
			t.Errorf("%s, then a reply that is lost: no error", first)
		}
		lies.tell("", 0)
		c.Cost = 0
		if left := take(t, b, c)[0].Remaining; left < 14 {
			t.Errorf("%s, then a reply that is lost: %d of 20 remain, want 14 at least: taken twice", first, left)
		}
	}
}

func TestARequestOfSeveralKeysIsSentAgainWhileItsSlotIsHalfMoved(t *testing.T) {
	t.Parallel()
	client, lies := lyingCluster(t, startRedis(t).addr)
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{HashTag: "t"})
	redisbackend.WaitForEver(b)
	limit := limits.LeakyBucket(limits.PerDay(1), 20)
	charges := []backends.Charge{charge("lies", "a", limit, 3), charge("lies", "b", limit, 3)}
	take(t, b, charges...)
	for replies, left := range []int64{14, 11, 8, 5} {
		lies.tell(
			":lies", 0, slices.Repeat([]string{"TRYAGAIN Multiple keys request during rehashing of slot"}, replies)...,
		)
		if d := take(t, b, charges...); !d[1].Allowed || d[1].Remaining != left {
			t.Errorf("after %d replies that it is half moved: %+v", replies, d)
		}
	}
	lies.tell(":lies", 0, slices.Repeat([]string{"TRYAGAIN Multiple keys request during rehashing of slot"}, 4)...)
	if err := b.Take(t.Context(), charges, make([]limits.Decision, 2)); !redis.HasErrorPrefix(err, "TRYAGAIN") {
		t.Errorf("for longer: %v", err)
	}
}
