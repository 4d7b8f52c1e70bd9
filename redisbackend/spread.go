package redisbackend

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/slot"
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
	lane      *lane // of the server that was asked to take them
	ask       ask
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
func (b *Backend) decideSpread(ctx context.Context, groups []*group, accounts []account, mode mode) ([]result, error) {
	decide := b.takeSpread
	if mode.peeks {
		decide = b.peekSpread
	}
	if err := decide(ctx, groups, mode); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(groups, (*group).isDenied) {
		for _, g := range groups { // nobody waits in a queue for a denied request
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

func (b *Backend) peekSpread(ctx context.Context, groups []*group, mode mode) error {
	for _, g := range groups {
		if err := b.peek(ctx, g.accounts, mode, &g.results); err != nil {
			return err
		}
	}
	return nil
}

func (b *Backend) peek(ctx context.Context, accounts []account, mode mode, to *[]result) error {
	if err := b.mayAsk(ctx); err != nil {
		return err
	}
	l, err := b.lanes.of(ctx, accounts[0].name)
	if err != nil {
		return err
	}
	mode.peeks = true
	_, err = b.step(ctx, l, new(ask), accounts, mode, to)
	return err
}

// takeSpread takes what groups charge, one after the other.
func (b *Backend) takeSpread(ctx context.Context, groups []*group, mode mode) error {
	b.spread.add(groups[:len(groups)-1])
	for i, g := range groups {
		err := b.mayAsk(ctx)
		if err == nil {
			g.lane, err = b.lanes.of(ctx, g.accounts[0].name)
		}
		if err == nil {
			_, err = b.step(ctx, g.lane, &g.ask, g.accounts, mode, &g.results)
		}
		if err != nil {
			b.giveBackLater(ctx, groups[:i])
			return err
		}
		if g.isDenied() {
			b.undo(ctx, groups, i, mode)
			return nil
		}
	}
	return nil
}

// maxUndoing is how many denied requests describe their other groups at the same time. Those
// beyond it are a crowd, for which servers are asked no more than they have to be.
const maxUndoing = 32

// undo returns what the groups before the denying one have taken, and describes all others
// as they are without this request, at the same time.
func (b *Backend) undo(ctx context.Context, groups []*group, denying int, mode mode) {
	defer b.undoing.Add(-1)
	if b.undoing.Add(1) > maxUndoing || groups[denying].ask.deniedBy > 0 {
		b.giveBackLater(ctx, groups[:denying])
		for _, g := range groups[:denying] {
			g.forget()
		}
		return
	}
	var others sync.WaitGroup
	for i, g := range groups {
		if i == denying {
			continue
		}
		others.Go(func() {
			returned := i > denying || b.giveBack(ctx, g)
			if !returned || b.look(ctx, g, mode) != nil {
				g.forget()
			}
		})
	}
	others.Wait()
}

// look sets the results of g to what a denied request is told. Such a request takes nothing
// enforced before its shadow charges are decided. So the server is asked apart about the shadow
// charges of a key that is charged both.
func (b *Backend) look(ctx context.Context, g *group, mode mode) error {
	accounts := slices.Clone(g.accounts)
	var shadows []account
	for i := range accounts {
		if a := &accounts[i]; a.enforces && a.HasShadow {
			shadows = append(shadows, *a)
			a.HasShadow = false
		}
	}
	if err := b.peek(ctx, accounts, mode, &g.results); err != nil || len(shadows) == 0 {
		return err
	}
	for i := range shadows {
		shadows[i].Enforced, shadows[i].enforces = 0, false
	}
	var apart []result
	if err := b.peek(ctx, shadows, mode, &apart); err != nil {
		return err
	}
	for i := range accounts {
		if g.accounts[i].HasShadow && !accounts[i].HasShadow {
			g.results[i].shadow, apart = apart[0].shadow, apart[1:]
		}
	}
	return nil
}

// forget says of all accounts that nobody was asked.
func (g *group) forget() {
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
