package redisbackend

import (
	"github.com/weir-go/weir/redisbackend/internal/line"
	"github.com/weir-go/weir/redisbackend/internal/wire"
)

// No script can decide keys that are spread over several servers. The accounts of such a request
// are grouped by partition: the slot of a Cluster or the shard of a Ring. The groups are taken one
// after the other, in the order of their first accounts. The first that denies ends the request,
// and what the earlier ones took is given back: see giveBacks. Until then another request may be
// denied too early. None is ever admitted beyond a limit.

// group is the accounts of one partition. One step decides them.
type group struct {
	partition any
	accounts  []wire.Account
	indexes   []int // of the accounts in their request
	job       takeJob
	results   []wire.Result
}

// groupsOf groups accounts by partition.
func groupsOf(accounts []wire.Account, locate line.Partitioner) ([]*group, error) {
	var groups []*group
	for i := range accounts {
		partition, _, err := locate(accounts[i].Name)
		if err != nil {
			return nil, err
		}
		var g *group
		for _, other := range groups {
			if other.partition == partition {
				g = other
			}
		}
		if g == nil {
			g = &group{partition: partition}
			groups = append(groups, g)
		}
		g.accounts, g.indexes = append(g.accounts, accounts[i]), append(g.indexes, i)
		g.results = append(g.results, wire.NotAsked)
	}
	return groups, nil
}

// markNotAsked resets the results of g to those of accounts that no server was asked about.
func (g *group) markNotAsked() {
	for i := range g.results {
		g.results[i] = wire.NotAsked
	}
}

// isDenied reports whether g denies its request. Shadow charges never do, even on a banned key.
func (g *group) isDenied() bool {
	for i := range g.accounts {
		if g.accounts[i].Enforces && !g.results[i].Enforced.Allowed {
			return true
		}
	}
	return false
}
