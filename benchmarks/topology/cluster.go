package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Cluster is three masters, perhaps with a replica each.
type Cluster struct {
	Masters, Replicas []*Server
}

const slotsOfAll = 16_384

// StartCluster starts a Cluster. timeout is the time after which a silent node is taken for dead.
// Without replicas the slots of the other masters stay served then.
func StartCluster(replicas bool, timeout time.Duration) (*Cluster, error) {
	c := new(Cluster)
	if err := c.start(replicas, timeout); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(replicas bool, timeout time.Duration) error {
	ctx, n := context.Background(), 3
	if replicas {
		n = 6
	}
	for i := range n {
		s, err := startServer("--cluster-enabled", "yes",
			"--cluster-node-timeout", fmt.Sprint(timeout.Milliseconds()),
			"--cluster-replica-validity-factor", "0", "--cluster-require-full-coverage", "no")
		if s != nil && i < 3 {
			c.Masters = append(c.Masters, s)
		} else if s != nil {
			c.Replicas = append(c.Replicas, s)
		}
		if err != nil {
			return err
		}
		if err := s.allow(); err != nil {
			return err
		}
	}
	first := c.Masters[0].Admin
	for i, s := range c.Nodes() {
		if i < 3 {
			s.Admin.Do(ctx, "cluster", "set-config-epoch", i+1)
			if err := s.Admin.ClusterAddSlotsRange(ctx, i*slotsOfAll/3, (i+1)*slotsOfAll/3-1).Err(); err != nil {
				return err
			}
		}
		if i > 0 {
			if err := first.ClusterMeet(ctx, s.Host, s.Port).Err(); err != nil {
				return err
			}
		}
	}
	all := func(what string, so func(*Server) bool) error {
		return until(what, func() bool {
			for _, s := range c.Nodes() {
				if !so(s) {
					return false
				}
			}
			return true
		})
	}
	err := all("all nodes know each other", func(s *Server) bool {
		nodes := s.Admin.ClusterNodes(ctx).Val()
		return strings.Count(nodes, " connected") == n && !strings.Contains(nodes, "handshake")
	})
	if err != nil {
		return err
	}
	for i, s := range c.Replicas {
		id, err := c.Masters[i].Admin.Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return err
		}
		if err := s.Admin.ClusterReplicate(ctx, id).Err(); err != nil {
			return err
		}
	}
	return all("the Cluster is in order", func(s *Server) bool {
		replication := s.Admin.Info(ctx, "replication").Val()
		follows := !replicas || strings.Contains(replication, "state=online") ||
			strings.Contains(replication, "master_link_status:up")
		return follows && strings.Contains(s.Admin.ClusterInfo(ctx).Val(), "cluster_state:ok") &&
			strings.Count(s.Admin.ClusterNodes(ctx).Val(), "slave ") == n-3
	})
}

// Nodes are the masters, and then the replicas.
func (c *Cluster) Nodes() []*Server { return slices.Concat(c.Masters, c.Replicas) }

// URL is what redisbackend.Open reads, for a user as in "limiter:secret@".
func (c *Cluster) URL(user string) string {
	return fmt.Sprintf("redis://%s%s?addr=%s&addr=%s",
		user, c.Masters[0].Addr, c.Masters[1].Addr, c.Masters[2].Addr)
}

// KeptBy reports whether a master has the slot of a key.
func (c *Cluster) KeptBy(master *Server, key string) bool {
	slot := int(c.Masters[1].Admin.ClusterKeySlot(context.Background(), key).Val())
	for i, s := range c.Masters {
		if s == master {
			return i*slotsOfAll/3 <= slot && slot < (i+1)*slotsOfAll/3
		}
	}
	return false
}

// Close ends all servers.
func (c *Cluster) Close() {
	for _, s := range c.Nodes() {
		s.close()
	}
}
