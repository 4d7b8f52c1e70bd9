package redisbackend

import "github.com/redis/go-redis/v9"

// HonoursDeadline reports whether [Backend.Take] fails as soon as the deadline of
// its context has passed, whatever it then waits for: that is so for a
// [redis.Client] with ContextTimeoutEnabled. Package breaker asks, and spares
// such a backend a goroutine for each decision.
//
// Clients of a Cluster and Rings wait for what they have to learn about their
// servers, and auto-pipeliners for others' commands, whatever the deadline.
func (b *Backend) HonoursDeadline() bool {
	client, ok := b.client.(*redis.Client)
	return ok && client.Options().ContextTimeoutEnabled
}
