package redisbackend

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/slot"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

// No script can decide keys that are spread over several servers. The accounts of such a
// request are grouped by partition: the slot of a Cluster or the shard of a Ring that keeps
// them. The groups are taken one after the other, in the order of their first accounts. The
// first that denies ends that, and what the earlier ones took is returned. Until then another
// request may be denied too early; none is admitted too many.

// group is the accounts of one partition, which one step can decide.
type group struct {
	partition any
	accounts  []account
	at        []int // the index of each in its request
	take      takeJob
	results   []result
}

// partitioner returns the partition that keeps a name, a comparable value, and the client
// to ask.
type partitioner func(name string) (partition any, client processor, err error)

// partitionerOf returns the partitioner of a client, nil if one step decides all names.
func partitionerOf(client redis.Scripter) partitioner {
	switch client := client.(type) {
	case cluster:
		return bySlot(client)
	case ring:
		return func(name string) (any, processor, error) {
			shard, err := client.GetShardClientForKey(name)
			return shard, shard, err
		}
	}
	return nil
}

// bySlot is the partitioner of a Cluster, or of a client that hides one.
func bySlot(client processor) partitioner {
	return func(name string) (any, processor, error) { return slot.Of(name), client, nil }
}

// groupsOf groups accounts by partition.
func groupsOf(accounts []account, locate partitioner) ([]*group, error) {
	var groups []*group
	for i := range accounts {
		partition, _, err := locate(accounts[i].name)
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
		g.accounts, g.at, g.results = append(g.accounts, accounts[i]), append(g.at, i), append(g.results, resultNotAsked)
	}
	return groups, nil
}

// decideSpread decides groups of accounts, and sets the tickets of these.
func (b *Bare) decideGroups(ctx context.Context, groups []*group, accounts []account, mode mode) ([]result, error) {
	decide := b.takeGroups
	if mode.peeks {
		decide = b.peekGroups
	}
	if err := decide(ctx, groups, mode); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(groups, (*group).isDenied) {
		for _, g := range groups { // a denied request has no turn in a queue
			for i := range g.results {
				g.results[i].enforced.Delay, g.results[i].shadow.Delay = 0, 0
			}
		}
	}
	all := make([]result, len(accounts))
	for _, g := range groups {
		for i, at := range g.at {
			all[at], accounts[at].ticket = g.results[i], g.accounts[i].ticket
		}
	}
	return all, nil
}

func (b *Bare) peekGroups(ctx context.Context, groups []*group, mode mode) error {
	for _, g := range groups {
		if _, err := b.step(ctx, &g.take, g.accounts, mode); err != nil {
			return err
		}
		copy(g.results, g.take.results)
	}
	return nil
}

// takeSpread takes what groups charge, one after the other. The first that denies ends that: the others
// take nothing, and their waits are not told.
func (b *Bare) takeGroups(ctx context.Context, groups []*group, mode mode) error {
	b.returnable.add(groups[:len(groups)-1])
	for i, g := range groups {
		if _, err := b.step(ctx, &g.take, g.accounts, mode); err != nil {
			b.giveBack(ctx, groups[:i])
			return err
		}
		copy(g.results, g.take.results)
		if g.isDenied() {
			b.giveBack(ctx, groups[:i])
			for _, taken := range groups[:i] {
				taken.markNotAsked()
			}
			return nil
		}
	}
	return nil
}

// forget makes the results of g those of accounts that no server was asked about.
func (g *group) markNotAsked() {
	for i := range g.results {
		g.results[i] = resultNotAsked
	}
}

// isDenied reports whether g denies its request. Shadow charges do not, even on a key that is
// banned.
func (g *group) isDenied() bool {
	for i := range g.accounts {
		if g.accounts[i].enforces && !g.results[i].enforced.Allowed {
			return true
		}
	}
	return false
}

// A denial by a key of a Cluster or Ring may be due to units that another request is about to
// return. It is then marked Transient, so that no cache repeats it. Only what is not in the last
// group of its request is returned. Its scopes are few, and the same in all processes of an
// application.

// spread is the set of scopes that a Bare has charged in a group that others followed. It
// is read without a lock, and only grows.
type scopeSet struct {
	mu     sync.Mutex
	scopes atomic.Pointer[map[string]struct{}]
}

// maxSpread is how many scopes the set has, at most. If there are more, perhaps one for each
// user, every scope counts as a member.
const maxSpread = 1024

// has reports whether a scope is in the set.
func (s *scopeSet) has(scope string) bool {
	scopes := s.scopes.Load()
	if scopes == nil {
		return false
	}
	_, ok := (*scopes)[scope]
	return ok || len(*scopes) > maxSpread
}

// add puts the scopes of groups into the set. That is done before they are taken, so that a
// request that their units deny finds them there.
func (s *scopeSet) add(groups []*group) {
	for _, g := range groups {
		for i := range g.accounts {
			s.addScope(g.accounts[i].Scope)
		}
	}
}

func (s *scopeSet) addScope(scope string) {
	if s.has(scope) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	more := make(map[string]struct{})
	if scopes := s.scopes.Load(); scopes != nil {
		more = maps.Clone(*scopes)
	}
	more[strings.Clone(scope)] = struct{}{}
	s.scopes.Store(&more)
}

// markTransient marks the denials that may be due to units about to be returned. A denial for
// ever is not.
func (b *Bare) markTransient(charges []backends.Charge, out []limits.Decision) {
	for i := range out {
		d := &out[i]
		d.Transient = !d.Allowed && d.RetryAfter != limits.Never && b.returnable.has(charges[i].Scope)
	}
}
