package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// leaseClient returns clients of one server.
func leaseClient(addr string) func() redis.UniversalClient {
	return func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	}
}

func TestLeasesOutlastAServerThatIsStopped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	startLeasers(t, "client", leaseClient(s.addr)).outlast(t, leaseFault{
		name: "SIGSTOP, SIGCONT", strike: func() { s.stop(t) }, heal: func() { s.resume(t) },
	})
}

func TestLeasesOutlastAServerThatIsKilled(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	startLeasers(t, "client", leaseClient(s.addr)).outlast(t, leaseFault{
		name: "kill -9 and restart, without persistence", strike: s.kill, heal: func() { s.restart(t) }, lost: 1,
	})
}

// Takings that had not been replicated are lost.
func TestLeasesOutlastAFailoverOfACluster(t *testing.T) {
	t.Parallel()
	masters := startMasters(t)
	replica := startNode(t, "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no")
	operator, master := replica.operator(t), masters[1].operator(t)
	host, port, _ := net.SplitHostPort(masters[1].addr)
	must(t, operator.Do(t.Context(), "cluster", "meet", host, port, masters[1].bus))
	id, err := master.Do(t.Context(), "cluster", "myid").Text()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica knows all", func() bool {
		nodes := operator.ClusterNodes(t.Context()).Val()
		return strings.Count(nodes, " connected") == 4 && !strings.Contains(nodes, "handshake")
	})
	must(t, operator.ClusterReplicate(t.Context(), id))
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(operator.Info(t.Context(), "replication").Val(), "master_link_status:up") &&
			strings.Contains(master.Info(t.Context(), "replication").Val(), "state=online")
	})
	for _, s := range masters {
		o := s.operator(t)
		eventually(t, "all masters know the replica", func() bool {
			return strings.Contains(o.ClusterNodes(t.Context()).Val(), "slave "+id)
		})
	}
	var client *redis.ClusterClient
	all := func() redis.UniversalClient {
		client = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{masters[0].addr, masters[1].addr, masters[2].addr}, ContextTimeoutEnabled: true, MaxRetries: -1,
			DialerRetries:          1,
			DisableRoutingPolicies: true,
		})
		return client
	}
	all()
	t.Cleanup(func(c *redis.ClusterClient) func() { return func() { c.Close() } }(client))
	key := 0
	for masterOf(t, client, "s", fmt.Sprint(key)) != masters[1].addr {
		key++
	}
	startLeasers(t, fmt.Sprint(key), all).outlast(t, leaseFault{
		name: "kill -9 of a master of a Cluster, its replica takes over", strike: masters[1].kill, heal: func() {}, lost: 1,
	})
}

func TestLeasesOutlastAFailoverBySentinel(t *testing.T) {
	t.Parallel()
	master := startServer(t, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.addr)
	replica := startServer(t, "--replicaof", host, port)
	follower := replica.operator(t)
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(follower.Info(t.Context(), "replication").Val(), "master_link_status:up")
	})
	sentinel := startSentinel(t, master)
	admin := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	t.Cleanup(func() { admin.Close() })
	eventually(t, "Sentinel knows the replica", func() bool {
		replicas := admin.Replicas(t.Context(), "limits").Val()
		return len(replicas) == 1 && replicas[0]["flags"] == "slave" && replicas[0]["master-link-status"] == "ok"
	})
	startLeasers(t, "client", func() redis.UniversalClient {
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "limits", SentinelAddrs: []string{sentinel}, ContextTimeoutEnabled: true, MaxRetries: -1,
			DialerRetries: 1,
		})
	}).outlast(t, leaseFault{
		name: "kill -9 of a master, Sentinel makes its replica master", strike: master.kill, heal: func() {}, lost: 1,
	})
}

// startSentinel starts a Sentinel that watches a master under the name "limits", and takes
// it for dead once it has not answered for a second. It returns its address.
func startSentinel(t *testing.T, master *server) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.addr)
	addr := freeAddr(t)
	_, own, _ := net.SplitHostPort(addr)
	config := filepath.Join(t.TempDir(), "sentinel.conf") // which it rewrites
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nloglevel warning\nsentinel monitor limits %s %s 1\nsentinel "+
		"down-after-milliseconds limits 1000\nsentinel failover-timeout limits 5000\n", own, host, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{addr: addr, command: redisServer(t, config, "--sentinel"), exited: make(chan struct{})}
	if err := s.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.command.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.kill)
	eventually(t, "Sentinel replies", s.replies)
	return addr
}
