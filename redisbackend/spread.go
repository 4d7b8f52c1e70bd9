package redisbackend

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
)

// Where keys are spread over several servers, no script can decide all of them.
// The accounts of a request are then grouped by where they are kept, each group
// is taken in one step, all at the same time, and what was taken is given back
// if any group denies. That may deny another request too early for an instant;
// it never admits one too many.

// group is the accounts that one step can decide.
type group struct {
	place    any // what their names have in common
	client   processor
	accounts []int
	taken    []account // a copy of the accounts
	lane     *lane
	ask      ask
	awaited  bool // it was sent, and nobody waits for the reply
	err      error
}

// placement says where a name is kept: a comparable value, and the client to ask.
type placement func(name string) (place any, client processor, err error)

// placementOf returns how client spreads names, nil if one step decides all.
func placementOf(client redis.Scripter) placement {
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

func bySlot(client processor) placement {
	return func(name string) (any, processor, error) { return slotOf(name), client, nil }
}

// groupsOf groups accounts by where they are kept.
func groupsOf(accounts []account, where placement) ([]group, error) {
	var groups []group
	for i := range accounts {
		place, client, err := where(accounts[i].name)
		if err != nil {
			return nil, err
		}
		at := 0
		for at < len(groups) && groups[at].place != place {
			at++
		}
		if at == len(groups) {
			groups = append(groups, group{place: place, client: client})
		}
		g := &groups[at]
		g.accounts = append(g.accounts, i)
		g.taken = append(g.taken, accounts[i])
	}
	return groups, nil
}

// takeInTurn is takeSpread for one of equal requests at a time, or a few.
func (b *Backend) takeInTurn(ctx context.Context, accounts []account, groups []group, mode mode, instant int64) ([]settled, error) {
	if mode != modeTake {
		all, _, err := b.takeSpread(ctx, accounts, groups, mode, instant)
		return all, err
	}
	tag := tagOf(accounts, instant)
	number, denial, err := b.flights.enter(ctx, tag, &b.lanes.late)
	if err != nil || denial != nil {
		return denial, err
	}
	defer func() { b.flights.leave(tag, number, denial) }()
	all, allowed, err := b.takeSpread(ctx, accounts, groups, mode, instant)
	if err == nil && !allowed {
		denial = all
	}
	return all, err
}

// takeSpread decides accounts that are kept in several places. It returns their
// decisions, and whether the request is allowed.
func (b *Backend) takeSpread(ctx context.Context, accounts []account, groups []group, mode mode, instant int64) ([]settled, bool, error) {
	ask := mode
	if mode == modeTake {
		ask = modeShare
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

	all := make([]settled, len(accounts))
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
			allowed = allowed && decisions[j].enforced.Allowed
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

// submit has the group asked. If there is nothing to wait for, err says why.
func (g *group) submit(ctx context.Context, b *Backend, mode mode, instant int64, now time.Time) {
	if g.lane, g.err = b.lanes.of(ctx, g.taken[0].name); g.err != nil {
		return
	}
	g.ask.prepare(ctx, b, g.taken, mode, instant)
	_, g.err = g.lane.submit(ctx, &g.ask, g.taken, now, false)
}

// allowed reports whether a group took what its accounts charge.
func (g *group) allowed(all []settled) bool {
	if g.err != nil {
		return false
	}
	for _, at := range g.accounts {
		if !all[at].enforced.Allowed {
			return false
		}
	}
	return true
}

// untake makes the decisions of an account those of a request that was denied
// elsewhere: what fits is allowed, and nothing was taken.
func (s *settled) untake(mode mode) {
	s.enforced.Delay, s.shadow.Delay = 0, 0
	if mode == modePeek {
		return
	}
	s.shadow.Allowed, s.shadow.RetryAfter, s.shadow.EffectiveWindow = s.alone == 0, s.alone, s.alone
	for _, d := range []*core.Decision{&s.enforced, &s.shadow} {
		d.Remaining, d.ResetAfter = s.before.Remaining, s.before.ResetAfter
		if d.Allowed {
			d.EffectiveWindow = s.before.EffectiveWindow
		}
	}
}
