package redisbackend

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/limits"
)

// If keys are spread over several servers, no script can decide all of them. The accounts
// of a request are then grouped by partition: the slot of a Cluster or the shard of a
// Ring that keeps them. Each group is taken in one step, all groups at the same time. If
// any group denies, the others are given back. Until then another request may be denied
// too early; none is admitted too many.

// group is the accounts of one partition, which one step can decide.
type group struct {
	partition any // that keeps all of them
	client    processor
	accounts  []int
	taken     []account // a copy of the accounts
	lane      *lane
	ask       ask
	awaited   bool // it was sent, but its request did not wait for the reply
	err       error
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
	of := direct(client).(processor)
	return func(name string) (any, processor, error) { return slot.Of(name), of, nil }
}

// learnSlots notes that client hides a Cluster, as a CROSSSLOT error shows, unless to has a
// partitioner. It reports whether the client can be asked slot by slot.
func learnSlots(to *atomic.Pointer[partitioner], client redis.Scripter) bool {
	hiding, ok := client.(processor)
	if ok && to.Load() == nil {
		locate := bySlot(hiding)
		to.CompareAndSwap(nil, &locate)
	}
	return ok
}

// groupsOf groups accounts by partition.
func groupsOf(accounts []account, locate partitioner) ([]group, error) {
	var groups []group
	for i := range accounts {
		partition, client, err := locate(accounts[i].name)
		if err != nil {
			return nil, err
		}
		at := 0
		for at < len(groups) && groups[at].partition != partition {
			at++
		}
		if at == len(groups) {
			groups = append(groups, group{partition: partition, client: client})
		}
		g := &groups[at]
		g.accounts = append(g.accounts, i)
		g.taken = append(g.taken, accounts[i])
	}
	return groups, nil
}

// takeInTurn is takeSpread behind the gate for equal requests.
func (b *Backend) takeInTurn(ctx context.Context, accounts []account, groups []group, mode mode, instant int64) ([]result, error) {
	if mode != modeTake {
		all, _, err := b.takeSpread(ctx, accounts, groups, mode, instant)
		return all, err
	}
	tag := tagOf(accounts, instant)
	number, denial, err := b.gates.enter(ctx, tag, &b.lanes.late)
	if err != nil || denial != nil {
		return denial, err
	}
	defer func() { b.gates.leave(tag, number, denial) }()
	all, allowed, err := b.takeSpread(ctx, accounts, groups, mode, instant)
	if err == nil && !allowed {
		denial = all
	}
	return all, err
}

// takeSpread decides accounts in several partitions. It returns their results, and
// whether the request is allowed.
func (b *Backend) takeSpread(ctx context.Context, accounts []account, groups []group, mode mode, instant int64) ([]result, bool, error) {
	ask := mode
	if mode == modeTake {
		ask = modeTentative
	}
	since := time.Now()
	for i := range groups {
		groups[i].submit(ctx, b, ask, instant, since)
	}
	for i := range groups {
		if g := &groups[i]; g.err == nil {
			var back bool
			back, g.err = g.ask.wait(ctx, g.lane, since)
			g.awaited = !back
		}
	}

	all := make([]result, len(accounts))
	allowed := true
	var errs []error
	var failing []*lane
	for i := range groups {
		g := &groups[i]
		if g.err != nil {
			errs, failing = append(errs, ofOneKey(g.err)), append(failing, g.lane)
			continue
		}
		decisions := read(g.ask.now, g.ask.numbers, g.taken, ask, nil)
		for j, at := range g.accounts {
			all[at] = decisions[j]
			allowed = allowed && !g.taken[j].isDenied(&decisions[j])
		}
	}
	err := errors.Join(errs...)
	if err != nil {
		err = b.lanes.blame(err, failing...)
	}
	if mode == modeTake && (err != nil || !allowed) {
		b.giveBackAll(ctx, groups, all, instant)
	}
	if err == nil && !allowed {
		for i := range all {
			all[i].untake(mode)
		}
	}
	return all, allowed, err
}

// submit sends the question about g. It sets g.err if there is no reply to wait for.
func (g *group) submit(ctx context.Context, b *Backend, mode mode, instant int64, now time.Time) {
	if g.lane, g.err = b.lanes.of(ctx, g.taken[0].name); g.err != nil {
		return
	}
	g.ask.prepare(ctx, b, g.taken, mode, instant)
	_, g.err = g.lane.submit(ctx, &g.ask, g.taken, now, false)
}

// allowed reports whether a group took what its accounts charge.
func (g *group) allowed(all []result) bool {
	if g.err != nil {
		return false
	}
	for j, at := range g.accounts {
		if g.taken[j].isDenied(&all[at]) {
			return false
		}
	}
	return true
}

// isDenied reports whether a stands in the way of its request. Shadow charges do not, even
// on a key that is banned.
func (a *account) isDenied(s *result) bool { return a.enforces && !s.enforced.Allowed }

// untake turns s into the result for a request that another group denied: what fits is
// allowed, and nothing was taken.
func (s *result) untake(mode mode) {
	s.enforced.Delay, s.shadow.Delay = 0, 0
	if mode == modePeek {
		return
	}
	s.shadow.Allowed, s.shadow.RetryAfter = s.alone == 0, s.alone
	if s.shadow.EffectiveWindow = s.alone; s.before.EffectiveWindow == limits.Never { // of a concurrency limit
		s.shadow.EffectiveWindow = limits.Never
	}
	for _, d := range []*limits.Decision{&s.enforced, &s.shadow} {
		d.Remaining, d.ResetAfter = s.before.Remaining, s.before.ResetAfter
		if d.Allowed {
			d.EffectiveWindow = s.before.EffectiveWindow
		}
	}
}
