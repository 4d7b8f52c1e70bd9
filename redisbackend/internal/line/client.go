package line

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/ground/slot"
)

// processor is a client, or part of one, that can be told not to send a command again.
type processor interface {
	redis.Scripter
	Process(context.Context, redis.Cmder) error
}

// The kinds of clients. They are interfaces, so that types that embed a client count, too.
type (
	// Single is like a redis.Client.
	Single interface {
		processor
		Options() *redis.Options
	}

	// Cluster is like a redis.ClusterClient.
	Cluster interface {
		processor
		pipeliner
		ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error
		MasterForKey(context.Context, string) (*redis.Client, error)
	}

	// Ring is like a redis.Ring.
	Ring interface {
		processor
		pipeliner
		ForEachShard(context.Context, func(context.Context, *redis.Client) error) error
		GetShardClientForKey(string) (*redis.Client, error)
		Len() int
		Options() *redis.RingOptions
	}

	// AutoPipeliner is like a redis.AutoPipeliner, new in go-redis 9.22.
	AutoPipeliner interface {
		processor
		IsBlocking() bool
		IsClosed() bool
		pipeliner
	}
)

// pipeliner is a client that can send several commands at once.
type pipeliner interface{ Pipeline() redis.Pipeliner }

// Partitioner returns the partition that keeps a name, as a comparable value, and the client to
// ask.
type Partitioner func(name string) (partition any, client processor, err error)

// partitionerOf returns the partitioner of a client. It is nil if one script decides all names.
func partitionerOf(client redis.Scripter) Partitioner {
	switch client := client.(type) {
	case Cluster:
		return bySlot(client)
	case Ring:
		return func(name string) (any, processor, error) {
			shard, err := client.GetShardClientForKey(name)
			return shard, shard, err
		}
	}
	return nil
}

// bySlot is the partitioner of a Cluster, or of a client that hides one.
func bySlot(client processor) Partitioner {
	return func(name string) (any, processor, error) { return slot.Of(name), client, nil }
}

// mostCalls bounds the calls to one server if the pool of the client is larger, or hidden as that of
// an auto-pipeliner.
const mostCalls = 16

// callsOf returns how many calls to one server may be under way: PoolSize, mostCalls at most.
func callsOf(client redis.Scripter) int {
	size := 0
	switch client := client.(type) {
	case Single:
		size = client.Options().PoolSize
	case interface{ Options() *redis.ClusterOptions }:
		size = client.Options().PoolSize
	case Ring:
		size = client.Options().PoolSize
	}
	if size <= 0 {
		return mostCalls
	}
	return min(size, mostCalls)
}

// usesTLS reports whether the options of a client show that it uses TLS.
func usesTLS(client redis.Scripter) bool {
	switch client := client.(type) {
	case Single:
		return client.Options().TLSConfig != nil
	case interface{ Options() *redis.ClusterOptions }:
		return client.Options().TLSConfig != nil
	case Ring:
		return client.Options().TLSConfig != nil
	}
	return false
}

// endsCallsOnTime reports whether a client ends every call at the deadline of its context, even
// while it connects.
func endsCallsOnTime(client redis.Scripter) bool {
	c, ok := client.(*redis.Client)
	if !ok {
		return false
	}
	o := c.Options()
	return o.ContextTimeoutEnabled && o.OnConnect == nil && o.Limiter == nil &&
		o.CredentialsProvider == nil && o.CredentialsProviderContext == nil &&
		o.StreamingCredentialsProvider == nil
}

// unqueued is an auto-pipeliner whose scripts go past its queue: each is a pipeline of one
// command. Lines gather requests already. The queue would ignore the deadlines of contexts, and
// would send commands that must not be repeated one by one.
type unqueued struct{ AutoPipeliner }

// Direct returns client, or for an auto-pipeliner the client past its queue.
func Direct(client redis.Scripter) redis.Scripter {
	if client, ok := client.(AutoPipeliner); ok {
		return unqueued{client}
	}
	return client
}

func (c unqueued) Process(ctx context.Context, cmd redis.Cmder) error {
	pipe := c.Pipeline()
	_ = pipe.Process(ctx, cmd) // only adds it to pipe
	_, err := pipe.Exec(ctx)
	return err
}

// caller makes calls through a client.
type caller struct {
	client      redis.Scripter
	once        bool                        // it would send calls again: see unrepeatedCommand
	redirects   bool                        // it follows redirections of a Cluster, or may
	partitioner atomic.Pointer[Partitioner] // nil: one script decides all keys
}

// begin makes c call through client, which may spread keys over servers.
func (c *caller) begin(client redis.Scripter, spreads bool) {
	c.client = client
	if locate := partitionerOf(client); locate != nil && spreads {
		c.partitioner.Store(&locate)
	}
	_, isSingle := client.(Single)
	_, isCluster := client.(Cluster)
	_, isRing := client.(Ring)
	c.once, c.redirects = isCluster || isRing, !isSingle && !isRing
}

// learnSlots is [Lines.LearnSlots].
func (c *caller) learnSlots() bool {
	hiding, ok := c.client.(processor)
	if ok && c.partitioner.Load() == nil {
		locate := bySlot(hiding)
		c.partitioner.CompareAndSwap(nil, &locate)
	}
	return ok
}

// partition is [Lines.Partition].
func (c *caller) partition() Partitioner {
	if p := c.partitioner.Load(); p != nil {
		return *p
	}
	return nil
}
