package redisbackend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// send makes the calls that decide some bundles. Each reply has an error of its own.
func (l *lane) send(ctx context.Context, cs *calls, bundles []*bundle) {
	locate := l.partitioner.Load()
	cs.plan(bundles, locate)
	l.run(ctx, cs.all)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved. Such a call has decided nothing, so each of its bundles is sent apart. The others keep
	// their replies.
	var apart []*bundle
	var kept []*call
	for _, k := range cs.all {
		err := k.reply.Err()
		if redis.HasErrorPrefix(err, "CROSSSLOT") && k.parts {
			learnSlots(l.partitioner, l.client)
		} else if !redis.HasErrorPrefix(err, "TRYAGAIN") || !k.parts {
			kept = append(kept, k)
			continue
		}
		apart = append(apart, k.bundles...)
	}
	if len(apart) == 0 {
		return
	}
	var again calls
	again.planEach(apart)
	l.run(ctx, again.all)
	cs.all = append(kept, again.all...)
}

func (l *lane) run(ctx context.Context, all []*call) {
	calls := make([]*scriptCall, len(all))
	for i, k := range all {
		k.once = k.once || l.once
		calls[i] = &k.scriptCall
	}
	takeScript.run(ctx, l.client, calls...)
}
