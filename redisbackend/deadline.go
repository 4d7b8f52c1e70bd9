package redisbackend

import "github.com/redis/go-redis/v9"

// HonoursDeadline reports whether [Backend.Take] fails as soon as the deadline of
// its context has passed, whatever it then waits for: that is so for a
// [redis.Client] with ContextTimeoutEnabled, unless its options name functions
// of yours that it calls while it connects, since no deadline ends those. Package
// breaker asks, and spares such a backend a goroutine for each decision.
//
// Hooks (AddHook) cannot be seen: one that waits, for anything but the command,
// must watch the context that it is given.
//
// Clients of a Cluster and Rings wait for what they have to learn about their
// servers, and auto-pipeliners for others' commands, whatever the deadline.
func (b *Backend) HonoursDeadline() bool {
	client, ok := b.client.(*redis.Client)
	if !ok {
		return false
	}
	o := client.Options()
	return o.ContextTimeoutEnabled && o.OnConnect == nil && o.Limiter == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil && o.StreamingCredentialsProvider == nil
}
