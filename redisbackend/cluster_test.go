package redisbackend_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// cluster is a Redis Cluster of a test's own.
type cluster struct {
	masters, replicas []*clusterNode
}

type clusterNode struct {
	*redisServer
	*redis.Client
	id  string
	bus string // the port at which nodes talk to each other
}

// startCluster starts three masters, which have a third of the slots each, and
// three replicas, in the order of their masters, and waits until they are one
// cluster. A node that does not answer for a second is taken for dead.
func startCluster(t testing.TB) *cluster {
	t.Helper()
	c := new(cluster)
	for i := range 6 {
		node := startClusterNode(t)
		if i < 3 {
			c.masters = append(c.masters, node)
		} else {
			c.replicas = append(c.replicas, node)
		}
	}
	ctx := t.Context()
	for i, master := range c.masters {
		ok(t, master.Do(ctx, "cluster", "set-config-epoch", i+1).Err())
		ok(t, master.ClusterAddSlotsRange(ctx, i*16384/3, (i+1)*16384/3-1).Err())
	}
	first := c.masters[0]
	for _, node := range c.nodes()[1:] {
		host, port, err := net.SplitHostPort(node.addr)
		ok(t, err)
		ok(t, first.Do(ctx, "cluster", "meet", host, port, node.bus).Err())
	}
	for _, node := range c.nodes() {
		until(t, "every node knows the others", func() bool {
			nodes := node.ClusterNodes(ctx).Val()
			return strings.Count(nodes, " connected") == 6 && !strings.Contains(nodes, "handshake")
		})
	}
	for i, replica := range c.replicas {
		ok(t, replica.ClusterReplicate(ctx, c.masters[i].id).Err())
	}
	for i, node := range c.nodes() {
		until(t, "the cluster is in order", func() bool {
			replication := node.Info(ctx, "replication").Val()
			link := "state=online"
			if i >= 3 {
				link = "master_link_status:up"
			}
			return strings.Contains(node.ClusterInfo(ctx).Val(), "cluster_state:ok") && strings.Contains(replication, link) &&
				strings.Count(node.ClusterNodes(ctx).Val(), "slave ") == 3
		})
	}
	return c
}

func startClusterNode(t testing.TB) *clusterNode {
	t.Helper()
	_, bus, err := net.SplitHostPort(freeAddr(t))
	ok(t, err)
	args := []string{"--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}
	if !beforeRedis7(t) {
		args = append(args, "--cluster-port", bus)
	}
	var server *redisServer
	if beforeRedis7(t) {
		server, bus = startOldNode(t, args...)
	} else {
		server = startRedis(t, args...)
	}
	node := &clusterNode{redisServer: server, Client: newClient(t, server.addr), bus: bus}
	node.id, err = node.Do(t.Context(), "cluster", "myid").Text()
	ok(t, err)
	return node
}

// startOldNode starts a node of Redis 6, whose bus is at a fixed distance from its port: above 32,767
// an outgoing connection may have that port.
func startOldNode(t testing.TB, args ...string) (server *redisServer, bus string) {
	t.Helper()
	for {
		addr := freeAddr(t)
		host, port, err := net.SplitHostPort(addr)
		ok(t, err)
		n, err := strconv.Atoi(port)
		ok(t, err)
		bus := strconv.Itoa(n + 10_000)
		l, err := net.Listen("tcp", net.JoinHostPort(host, bus))
		if err != nil {
			continue
		}
		ok(t, l.Close())
		if n >= 22_000 {
			continue
		}
		return startServer(t, addr, append(serverArgs(t, port), args...)...), bus
	}
}

// startSoleNode starts a Cluster of one server.
func startSoleNode(t testing.TB) *clusterNode {
	t.Helper()
	node := startClusterNode(t)
	ok(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	until(t, "the cluster is up", func() bool {
		return strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	})
	return node
}

func (c *cluster) nodes() []*clusterNode {
	return append(append([]*clusterNode{}, c.masters...), c.replicas...)
}

// client returns a client of the cluster, closed with the test.
func (c *cluster) client(t testing.TB) *redis.ClusterClient { return c.clientBy(t, nil) }

func (c *cluster) clientBy(
	t testing.TB, dial func(ctx context.Context, network, addr string) (net.Conn, error),
) *redis.ClusterClient {
	t.Helper()
	var addrs []string
	for _, node := range c.nodes() {
		addrs = append(addrs, node.addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, Dialer: dial, ContextTimeoutEnabled: true, DialerRetries: 1, DisableRoutingPolicies: true,
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// move gives a slot to another master, as an administrator would, while it is
// in use. It calls pause when the slot is half moved: with all keys at the old
// master, then with each that has gone.
func (c *cluster) move(ctx context.Context, slot int, from, to *clusterNode, pause func()) error {
	if err := to.Do(ctx, "cluster", "setslot", slot, "importing", from.id).Err(); err != nil {
		return fmt.Errorf("importing: %w", err)
	}
	if err := from.Do(ctx, "cluster", "setslot", slot, "migrating", to.id).Err(); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	host, port, err := net.SplitHostPort(to.addr)
	if err != nil {
		return err
	}
	for {
		pause()
		keys, err := from.ClusterGetKeysInSlot(ctx, slot, 1).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		if err := from.Migrate(ctx, host, port, keys[0], 0, 5*time.Second).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	for _, node := range append([]*clusterNode{to, from}, c.masters...) {
		if err := node.Do(ctx, "cluster", "setslot", slot, "node", to.id).Err(); err != nil {
			return fmt.Errorf("node: %w", err)
		}
	}
	return nil
}

// startRing starts three servers and returns a Ring of them, closed with the
// test.
func startRing(t testing.TB) *redis.Ring {
	t.Helper()
	addrs := make(map[string]string)
	for i := range 3 {
		addrs["shard"+strconv.Itoa(i)] = startRedis(t).addr
	}
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: addrs, ContextTimeoutEnabled: true, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	})
	t.Cleanup(func() { ring.Close() })
	return ring
}

// until waits until so is true.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a minute later it is not so that %s", what)
		}
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ownerAndAnother returns the master that has a slot, and one that has not.
func (c *cluster) ownerAndAnother(t testing.TB, slot int) (owner, another *clusterNode) {
	t.Helper()
	//lint:ignore SA1019 ClusterShards of go-redis 9.20 cannot read the answer of Valkey 9
	ranges, err := c.masters[0].ClusterSlots(t.Context()).Result()
	ok(t, err)
	for i, master := range c.masters {
		for _, r := range ranges {
			if r.Start <= slot && slot <= r.End && r.Nodes[0].ID == master.id { // the master is the first
				return master, c.masters[(i+1)%len(c.masters)]
			}
		}
	}
	t.Fatalf("no master has slot %d", slot)
	return nil, nil
}
