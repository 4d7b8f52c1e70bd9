package redisbackend

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
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
	WaitForEver(b)
	return b
}

// Settle waits until b has given back what it has to.
func Settle(b *Backend) { <-b.giveBacks.idle() }

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
	var r request
	if err := b.group([]core.Charge{c}, &r); err != nil {
		return d, nil, err
	}
	accounts := r.accounts
	l, err := b.lanes.of(ctx, accounts[0].name)
	if err != nil {
		return d, nil, err
	}
	a := new(ask)
	a.prepare(ctx, b, accounts, modeShare, b.instant())
	if _, err := l.decide(ctx, a, accounts); err != nil {
		return d, nil, err
	}
	all := read(a.now, a.numbers, accounts, modeShare, nil)
	return all[0].enforced, func() (bool, error) {
		p, ok := giveBackFor(b.client.(processor), &accounts[0], &all[0], b.instant())
		if !ok {
			return false, nil
		}
		return p.send(ctx).Bool()
	}, nil
}

// Spread is how many scopes b knows to be charged together with others.
func Spread(b *Backend) int {
	if scopes := b.spread.scopes.Load(); scopes != nil {
		return len(*scopes)
	}
	return 0
}

// Waiting is how many requests wait in b's only lane.
func Waiting(b *Backend) (n int) {
	l := b.lanes.only
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.queues {
		for k := l.queues[i].first; k != nil; k = k.next {
			n += k.of.asks.size
		}
	}
	return n
}

// WaitForEver has b never take a server for silent: the machine may be slow.
func WaitForEver(b *Backend) {
	b.lanes.patience = 1000 * time.Hour
	if b.lanes.only != nil {
		b.lanes.only.patience = b.lanes.patience
	}
}

// Client is the client that b works with.
func Client(b *Backend) redis.Scripter { return b.client }

// Unrepeated is the client by which a Cluster is asked.
func Unrepeated(client redis.Scripter) redis.Scripter { return unrepeatedClient{client.(cluster)} }

// UnrepeatedPipeline is a pipeline by which a Cluster is asked.
func UnrepeatedPipeline(client *redis.ClusterClient) pipeline {
	return pipelineTo(unrepeatedClient{client})
}
