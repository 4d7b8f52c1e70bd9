package redisbackend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// send makes the calls that decide some crowds: one command, or a pipeline. Each
// reply has its own error.
func (l *lane) send(ctx context.Context, cs *calls, crowds []*crowd) {
	where := l.where.Load()
	cs.plan(crowds, where)
	l.exec(ctx, cs.all)
	// A Cluster does not take a call for keys of several slots, or of one that is
	// just being moved. Such a call has decided nothing.
	var apart []*crowd
	for i := range cs.all {
		k := &cs.all[i]
		if len(k.crowds) == 1 {
			continue
		}
		switch err := k.reply.Err(); {
		case redis.HasErrorPrefix(err, "CROSSSLOT"):
			if hiding, ok := l.client.(processor); ok && where == nil {
				by := bySlot(hiding)
				l.where.CompareAndSwap(nil, &by)
			}
			fallthrough
		case redis.HasErrorPrefix(err, "TRYAGAIN"):
			apart = append(apart, k.crowds...)
		}
	}
	if len(apart) == 0 {
		return
	}
	// The others keep their replies.
	var again calls
	again.planEach(apart)
	l.exec(ctx, again.all)
	kept := cs.all[:0:0]
	for _, k := range cs.all {
		if len(k.crowds) == 1 || !redis.HasErrorPrefix(k.reply.Err(), "CROSSSLOT") && !redis.HasErrorPrefix(k.reply.Err(), "TRYAGAIN") {
			kept = append(kept, k)
		}
	}
	cs.all = append(kept, again.all...)
}

// exec makes calls.
func (l *lane) exec(ctx context.Context, all []call) {
	if len(all) == 1 || !l.pipeline(ctx, all) {
		for i := range all {
			all[i].reply = takeScript.run(ctx, l.client, all[i].keys, all[i].args...)
		}
		return
	}
	for i := range all {
		if redis.HasErrorPrefix(all[i].reply.Err(), "NOSCRIPT") {
			l.teach(ctx, all)
			return
		}
	}
}

// pipeline sends the calls that have no reply, and reports whether the client can
// send several at once.
func (l *lane) pipeline(ctx context.Context, all []call) bool {
	pipe := pipelineTo(l.client)
	if pipe == nil {
		return false
	}
	for i := range all {
		if k := &all[i]; k.reply == nil {
			k.reply = pipe.EvalSha(ctx, takeScript.digest, k.keys, k.args...)
		}
	}
	_, _ = pipe.Exec(ctx) // is also the error of each command
	return true
}

// teach sends the calls again whose server does not know the script: the first with
// the source, which the others then find.
func (l *lane) teach(ctx context.Context, all []call) {
	taught := false
	for i := range all {
		k := &all[i]
		if !redis.HasErrorPrefix(k.reply.Err(), "NOSCRIPT") {
			continue
		}
		if k.reply = nil; !taught {
			k.reply = l.client.Eval(ctx, takeScript.source, k.keys, k.args...)
			taught = true
		}
	}
	l.pipeline(ctx, all)
	for i := range all {
		k := &all[i]
		if redis.HasErrorPrefix(k.reply.Err(), "NOSCRIPT") { // kept elsewhere, or flushed again
			k.reply = takeScript.run(ctx, l.client, k.keys, k.args...)
		}
	}
}
