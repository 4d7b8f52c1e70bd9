package redisbackend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// sendSettlements sends calls, each at most once, in one pipeline if there are several.
// A server that does not know the script has not run it, and is sent its source.
func (b *Backend) sendSettlements(ctx context.Context, calls []*settlement) {
	pipe := b.settlementPipe()
	if len(calls) == 1 || pipe == nil {
		for _, c := range calls {
			c.send(ctx, b.direct, "evalsha", settleScript.digest)
		}
	} else {
		for _, c := range calls {
			c.reply = pipe.EvalSha(ctx, settleScript.digest, c.keys, c.args...)
		}
		_, _ = pipe.Exec(ctx) // each command has the error, too
	}
	for _, c := range calls {
		if c.isUnknown() { // an earlier one may have taught its server
			c.send(ctx, b.direct, "evalsha", settleScript.digest)
		}
		if c.isUnknown() {
			c.send(ctx, b.direct, "eval", settleScript.source)
		}
	}
}

func (c *settlement) isUnknown() bool { return redis.HasErrorPrefix(c.reply.Err(), "NOSCRIPT") }

// settlementPipe returns a pipeline whose scripts are not sent again, nil if the client
// has none.
func (b *Backend) settlementPipe() pipeline {
	if p, ok := b.direct.(pipeliner); ok {
		return unrepeatedPipe{p.Pipeline()}
	}
	return nil
}

// send sends c by itself.
func (c *settlement) send(ctx context.Context, client redis.Scripter, name, text string) {
	if p, ok := client.(processor); ok {
		c.reply = scriptCommand(ctx, name, text, c.keys, c.args)
		_ = p.Process(ctx, unrepeated(c.reply, len(c.keys) > 1)) // the reply has the error, too
		return
	}
	if name == "eval" {
		c.reply = client.Eval(ctx, text, c.keys, c.args...)
	} else {
		c.reply = client.EvalSha(ctx, text, c.keys, c.args...)
	}
}
