package redisbackend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// unqueued is an auto-pipeliner whose scripts go past its queue: each is a pipeline of one
// command to the client of the auto-pipeliner. The queue ignores the deadlines of contexts. It
// splits a batch at each command that must not be sent again, and sends the parts one after
// the other, so such commands would slow down all others.
type unqueued struct{ autoPipeliner }

// direct returns client, or the client past the queue if client is an auto-pipeliner.
func direct(client redis.Scripter) redis.Scripter {
	if client, ok := client.(autoPipeliner); ok {
		return unqueued{client}
	}
	return client
}

func (c unqueued) Process(ctx context.Context, cmd redis.Cmder) error {
	pipe := c.Pipeline()
	_ = pipe.Process(ctx, cmd) // only queues it in pipe
	_, err := pipe.Exec(ctx)
	return err
}

func (c unqueued) EvalSha(ctx context.Context, digest string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "evalsha", digest, keys, args)
	_ = c.Process(ctx, cmd) // cmd has the error, too
	return cmd
}

func (c unqueued) Eval(ctx context.Context, source string, keys []string, args ...any) *redis.Cmd {
	cmd := scriptCommand(ctx, "eval", source, keys, args)
	_ = c.Process(ctx, cmd)
	return cmd
}
