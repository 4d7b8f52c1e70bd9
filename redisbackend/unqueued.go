package redisbackend

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// unqueued is an auto-pipeliner whose scripts go past its queue: each is a pipeline of one
// command to the client of the auto-pipeliner. Requests are gathered by the lanes already. The queue
// ignores the deadlines of contexts, and sends what must not be sent again one after the other.
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
