package redisbackend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// send makes the calls that decide some bundles: one command, or one pipeline. Each reply
// has an error of its own.
func (l *lane) send(ctx context.Context, cs *calls, bundles []*bundle) {
	locate := l.partitioner.Load()
	cs.plan(bundles, locate)
	l.exec(ctx, cs.all)
	// A Cluster rejects a call for keys of several slots, or of a slot that is just being
	// moved. Such a call has decided nothing, so each of its bundles is sent apart.
	var apart []*bundle
	for i := range cs.all {
		k := &cs.all[i]
		if len(k.bundles) == 1 {
			continue
		}
		switch err := k.reply.Err(); {
		case redis.HasErrorPrefix(err, "CROSSSLOT"):
			learnSlots(l.partitioner, l.client)
			fallthrough
		case redis.HasErrorPrefix(err, "TRYAGAIN"):
			apart = append(apart, k.bundles...)
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
		if len(k.bundles) == 1 || !redis.HasErrorPrefix(k.reply.Err(), "CROSSSLOT") && !redis.HasErrorPrefix(k.reply.Err(), "TRYAGAIN") {
			kept = append(kept, k)
		}
	}
	cs.all = append(kept, again.all...)
}

// clientFor returns the client for calls.
func (l *lane) clientFor(all []call) redis.Scripter {
	for i := range all {
		if all[i].holds {
			return l.unrepeated
		}
	}
	return l.client
}

// exec makes calls.
func (l *lane) exec(ctx context.Context, all []call) {
	client := l.clientFor(all)
	if len(all) == 1 || !pipelineAll(ctx, client, all) {
		for i := range all {
			all[i].reply = takeScript.run(ctx, client, all[i].keys, all[i].args...)
		}
		return
	}
	for i := range all {
		if redis.HasErrorPrefix(all[i].reply.Err(), "NOSCRIPT") {
			teach(ctx, client, all)
			return
		}
	}
}

// pipelineAll sends the calls that have no reply, and reports whether the client can
// send several at once.
func pipelineAll(ctx context.Context, client redis.Scripter, all []call) bool {
	pipe := pipelineTo(client)
	if pipe == nil {
		return false
	}
	for i := range all {
		if k := &all[i]; k.reply == nil {
			k.reply = pipe.EvalSha(ctx, takeScript.digest, k.keys, k.args...)
		}
	}
	_, _ = pipe.Exec(ctx) // each command has the error, too
	return true
}

// teach repeats the calls whose server does not know the script. The first one sends the
// source, so that the server knows it for the others.
func teach(ctx context.Context, client redis.Scripter, all []call) {
	taught := false
	for i := range all {
		k := &all[i]
		if !redis.HasErrorPrefix(k.reply.Err(), "NOSCRIPT") {
			continue
		}
		if k.reply = nil; !taught {
			k.reply = client.Eval(ctx, takeScript.source, k.keys, k.args...)
			taught = true
		}
	}
	pipelineAll(ctx, client, all)
	for i := range all {
		k := &all[i]
		if redis.HasErrorPrefix(k.reply.Err(), "NOSCRIPT") { // another server, or flushed again
			k.reply = takeScript.run(ctx, client, k.keys, k.args...)
		}
	}
}
