package redisbackend

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// giveBackBudget is how long a give-back may take. It runs after the answer,
	// whose own deadline is near.
	giveBackBudget = time.Second

	// maxGiveBacks is how many requests may have give-backs under way. Others
	// wait for that before they answer, which slows down whoever sends too many,
	// and leave units taken if they cannot wait any longer.
	maxGiveBacks = 64
)

// giveBack is what one taking is given back by.
type giveBack struct {
	client processor
	key    string
	args   []any
}

// giveBackAll gives back, after the answer, what the groups that allowed took.
func (b *Backend) giveBackAll(ctx context.Context, groups []group, all []settled, instant int64) {
	var pending []giveBack
	for i := range groups {
		g := &groups[i]
		if !g.allowed(all) {
			continue
		}
		for j, at := range g.accounts {
			if p, ok := giveBackFor(g.client, &g.taken[j], &all[at], instant); ok {
				pending = append(pending, p)
			}
		}
	}
	if len(pending) == 0 {
		return
	}
	select {
	case b.givingBack <- struct{}{}:
	default:
		select {
		case b.givingBack <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	b.background.Go(func() {
		defer func() { <-b.givingBack }()
		runAll(context.WithoutCancel(ctx), pending)
	})
}

// giveBackFor returns what gives back the taking of an account that s tells of, if
// anything was taken.
func giveBackFor(client processor, a *account, s *settled, instant int64) (p giveBack, ok bool) {
	units, left := a.enforced, s.enforced.ResetAfter
	if a.shadows && s.shadow.Allowed {
		units, left = sum(units, a.shadow), s.shadow.ResetAfter
	}
	left -= time.Duration(s.takenAt-s.enforced.At) * time.Microsecond
	args := []any{a.limit.text, units, s.takenAt, left.Microseconds()}
	if instant != 0 {
		args = append(args, instant)
	}
	return giveBack{client, a.name, args}, units > 0
}

func runAll(ctx context.Context, pending []giveBack) {
	ctx, cancel := context.WithTimeout(ctx, giveBackBudget)
	defer cancel()
	for _, p := range pending {
		// A failure leaves the units taken, early denials until they have
		// drained, and there is nobody left to tell.
		_ = p.run(ctx).Err()
	}
}

func (p giveBack) run(ctx context.Context) *redis.Cmd {
	return giveBackScript.runOnce(ctx, p.client, p.key, p.args...)
}
