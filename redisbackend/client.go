package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/redis/go-redis/v9"
)

// processor is a client, or part of one, whose commands can be sent at most once.
type processor interface {
	redis.Scripter
	Process(context.Context, redis.Cmder) error
}

// The kinds of clients. Each is an interface, so that types that embed a client count, too.
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

// validate returns all that is wrong with the arguments of [New].
func validate(client redis.Scripter, options Options) error {
	var errs []error
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		errs = append(errs, errors.New("the client is nil"))
	}
	switch client.(type) {
	case redis.Pipeliner:
		errs = append(errs, errors.New("a pipeline sends nothing until it is told to: pass the client, or its AutoPipeline"))
	case single, cluster, ring, autoPipeliner, nil:
	default:
		if options.HashTag == "" {
			errs = append(errs, fmt.Errorf("a %T may spread keys over servers unseen: pass the client of go-redis as it is, or set HashTag", client))
		}
	}
	errs = append(errs, validatePrefix(options.Prefix))
	if strings.ContainsAny(options.HashTag, "{}") {
		errs = append(errs, fmt.Errorf("the hash tag must not contain braces (got %q): they are put around it", options.HashTag))
	}
	if options.HashTag != "" && len(options.Together) > 0 {
		errs = append(errs, errors.New("HashTag keeps all states in one slot already: remove Together or HashTag"))
	}
	if options.HoldTime != 0 && (options.HoldTime < minHoldTime || options.HoldTime > maxHoldTime) {
		errs = append(errs, fmt.Errorf("HoldTime must be %v to %v (got %v)", minHoldTime, maxHoldTime, options.HoldTime))
	}
	return errors.Join(errs...)
}

// usesTLS reports whether a client is known to use TLS.
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
// command to the client of the auto-pipeliner. Lines gather the requests already. The queue
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
