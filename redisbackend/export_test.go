package redisbackend

import (
	"context"
	"time"

	"github.com/weir-go/weir/core"
)

// WithClock makes b decide by now instead of the server's clock, by 2255 at the
// latest, which is 2^53 microseconds.
func WithClock(b *Backend, now func() time.Time) *Backend {
	latest := time.UnixMicro(1<<53 - 1)
	b.now = func() time.Time {
		if t := now(); t.Before(latest) {
			return t
		}
		return latest
	}
	return b
}

// Settle waits until b has given back what it has to.
func Settle(b *Backend) { b.background.Wait() }

// SlotOf is the hash slot of a name.
var SlotOf = slotOf

// Name is the name of a state in Redis.
func Name(b *Backend, scope, key string) string { return b.name(scope, key) }

// Judge is what Check makes of a server's INFO.
var Judge = judge

// Explain is what Check says of a server's error.
var Explain = explain

// Share takes c as the part of a group that one of several servers keeps, and
// returns what gives it back and reports whether there was anything to give.
func Share(ctx context.Context, b *Backend, c core.Charge) (d core.Decision, giveBack func() (bool, error), err error) {
	accounts, _, err := b.accountsOf([]core.Charge{c}, nil, nil)
	if err != nil {
		return d, nil, err
	}
	keys, args := b.arguments(accounts, modeShare, b.instant(), nil, nil)
	reply, err := takeScript.run(ctx, b.client, keys, args...).Int64Slice()
	if err != nil {
		return d, nil, err
	}
	all, err := read(reply, accounts, modeShare, nil)
	if err != nil {
		return d, nil, err
	}
	return all[0].enforced, func() (bool, error) {
		p, ok := giveBackFor(b.client.(processor), &accounts[0], &all[0], b.instant())
		if !ok {
			return false, nil
		}
		return p.run(ctx).Bool()
	}, nil
}

// Spread is how many scopes b knows to be charged together with others.
func Spread(b *Backend) int {
	if scopes := b.spread.scopes.Load(); scopes != nil {
		return len(*scopes)
	}
	return 0
}
