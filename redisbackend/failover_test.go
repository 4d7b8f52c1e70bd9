package redisbackend_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

// questions returns how often the nodes were asked for their slots since they began to count.
func (c *cluster) questions(t *testing.T, alive []*clusterNode) (n int) {
	t.Helper()
	for _, node := range alive {
		for line := range strings.Lines(node.Info(t.Context(), "commandstats").Val()) {
			if _, calls, found := strings.Cut(line, "cluster|slots:calls="); found {
				var k int
				_, err := fmt.Sscanf(calls, "%d,", &k)
				ok(t, err)
				n += k
			}
		}
	}
	return n
}

// The replica of a dead master has taken over. A hundred requests find the old master dead; one
// question for all of them finds the new one.
func TestARefusedDialCausesOneQuestionForTheState(t *testing.T) {
	t.Parallel()
	if beforeRedis7(t) {
		t.Skip("Redis 6 does not count subcommands")
	}
	c := startCluster(t)
	var addrs []string
	for _, node := range c.nodes() {
		addrs = append(addrs, node.addr)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: addrs, ContextTimeoutEnabled: true, DialerRetries: 1, DisableRoutingPolicies: true,
		ClusterStateReloadInterval: time.Hour, // the client asks for no state by itself
	})
	defer client.Close()
	b := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	redisbackend.WaitForEver(b)
	limit := limits.FixedWindow(limits.PerDay(1000))
	decide := func(key int) error {
		return b.Take(t.Context(), []backends.Charge{charge("s", fmt.Sprint(key), limit, 1)}, make([]limits.Decision, 1))
	}
	var own int // a key of the first master
	for first := c.masters[0]; ; own++ {
		master, err := client.MasterForKey(t.Context(), redisbackend.Name(b, "s", fmt.Sprint(own)))
		ok(t, err)
		if master.Options().Addr == first.addr {
			break
		}
	}
	ok(t, decide(own))

	c.masters[0].kill()
	alive := c.nodes()[1:]
	ok(t, c.replicas[0].Do(t.Context(), "cluster", "failover", "takeover").Err())
	for _, node := range alive {
		until(t, "all know the new master", func() bool {
			nodes := node.ClusterNodes(t.Context()).Val()
			isOK := strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
			for line := range strings.Lines(nodes) {
				if strings.HasPrefix(line, c.replicas[0].id) {
					slots := strings.HasSuffix(strings.TrimSpace(line), "5460")
					return isOK && slots && strings.Contains(line, "master")
				}
			}
			return false
		})
		ok(t, node.ConfigResetStat(t.Context()).Err())
	}

	var failed sync.WaitGroup
	for range 100 {
		failed.Go(func() { _ = decide(own) })
	}
	failed.Wait()
	until(t, "the new master decides", func() bool { return decide(own) == nil })
	for range 100 {
		ok(t, decide(own))
	}
	if n := c.questions(t, alive); n != 1 {
		t.Errorf("%d questions for the state, want 1", n)
	}
}
