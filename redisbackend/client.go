package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/internal/ground/isnil"
)

// processor is a client, or part of one, that can be told not to send a command again.
type processor interface {
	redis.Scripter
	Process(context.Context, redis.Cmder) error
}

// The kinds of clients. They are interfaces, so that types that embed a client count, too.
type (
	single interface { // redis.Client
		processor
		Options() *redis.Options
	}
	cluster interface { // redis.ClusterClient
		processor
		pipeliner
		ForEachMaster(context.Context, func(context.Context, *redis.Client) error) error
		MasterForKey(context.Context, string) (*redis.Client, error)
	}
	ring interface { // redis.Ring
		processor
		pipeliner
		ForEachShard(context.Context, func(context.Context, *redis.Client) error) error
		GetShardClientForKey(string) (*redis.Client, error)
		Len() int
		Options() *redis.RingOptions
	}
	autoPipeliner interface { // redis.AutoPipeliner, new in go-redis 9.22
		processor
		IsBlocking() bool
		IsClosed() bool
		pipeliner
	}
)

// validateClient returns an error if limits cannot be kept on client.
func validateClient(client redis.Scripter, hashTag string) error {
	if isnil.Of(client) {
		return fmt.Errorf("redisbackend: client: is nil (got %T): pass a go-redis client", client)
	}
	switch client.(type) {
	case redis.Pipeliner:
		return errors.New(
			"redisbackend: client: a pipeline sends nothing by itself: pass the client")
	case single, cluster, ring, autoPipeliner:
		return nil
	}
	if hashTag == "" {
		return fmt.Errorf(
			"redisbackend: client: a %T may spread keys unseen: pass the client that it wraps",
			client)
	}
	return nil
}

func (o *BareOptions) validate() error {
	errs := []error{validatePrefix(o.Prefix)}
	if strings.ContainsAny(o.HashTag, "{}") {
		errs = append(errs, fmt.Errorf(
			"redisbackend: hash tag: must have no braces (got %q)", o.HashTag))
	}
	if o.HashTag != "" && len(o.Together) > 0 {
		errs = append(errs, errors.New(
			"redisbackend: together: HashTag keeps all states in one slot: remove one of them"))
	}
	if o.HoldTime != 0 && (o.HoldTime < minHoldTime || o.HoldTime > maxHoldTime) {
		errs = append(errs, fmt.Errorf(
			"redisbackend: hold time: must be %v to %v, or 0 for %v (got %v)",
			minHoldTime, maxHoldTime, defaultHoldTime, o.HoldTime))
	}
	return errors.Join(errs...)
}

// usesTLS reports whether the options of a client show that it uses TLS.
func usesTLS(client redis.Scripter) bool {
	switch client := client.(type) {
	case single:
		return client.Options().TLSConfig != nil
	case interface{ Options() *redis.ClusterOptions }:
		return client.Options().TLSConfig != nil
	case ring:
		return client.Options().TLSConfig != nil
	}
	return false
}

// unqueued is an auto-pipeliner whose scripts go past its queue: each is a pipeline of one
// command. Lines gather requests already. The queue would ignore the deadlines of contexts, and
// would send commands that must not be repeated one by one.
type unqueued struct{ autoPipeliner }

// direct returns client, or for an auto-pipeliner the client past its queue.
func direct(client redis.Scripter) redis.Scripter {
	if client, ok := client.(autoPipeliner); ok {
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
