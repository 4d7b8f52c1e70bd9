package redisbackend

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrEvicts is part of the error of [Backend.Check] if a server may drop live
// state when its memory is full.
var ErrEvicts = errors.New("the eviction policy drops live state, and with it what clients have used: set maxmemory-policy to noeviction")

// Check returns nil if every server of the client is reachable, takes writes,
// runs the scripts, is Redis 6.2 or later or Valkey, and evicts nothing;
// otherwise an error that reports all that is wrong. Call it when a program
// starts, or from a readiness probe: a limiter works without, and survives what
// Check complains about as its rules say.
func (b *Backend) Check(ctx context.Context) error {
	err := b.checkAll(ctx)
	if err != nil {
		return fmt.Errorf("redisbackend: check: %w", err)
	}
	return nil
}

func (b *Backend) checkAll(ctx context.Context) error {
	switch client := b.client.(type) {
	case *redis.ClusterClient:
		return client.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			return of(master, checkReachable(ctx, master))
		})
	case *redis.Ring:
		return client.ForEachShard(ctx, func(ctx context.Context, shard *redis.Client) error {
			return of(shard, b.check(ctx, shard))
		})
	}
	return b.check(ctx, b.client)
}

func of(server *redis.Client, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", server.Options().Addr, err)
	}
	return nil
}

// check asks the server that keeps the key it writes.
func (b *Backend) check(ctx context.Context, client redis.Scripter) error {
	reply, err := checkScript.run(ctx, client, []string{b.prefix + "check"}).StringSlice()
	if err != nil {
		return err
	}
	if len(reply) != 2 {
		return fmt.Errorf("the server replied with %d sections instead of 2", len(reply))
	}
	return judge(reply[0], reply[1])
}

// checkReachable asks one master of a Cluster, which need not keep the key that
// a script would write.
func checkReachable(ctx context.Context, master *redis.Client) error {
	server, err := master.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	memory, err := master.Info(ctx, "memory").Result()
	if err != nil {
		return err
	}
	return judge(server, memory)
}

// judge reports what is wrong with a server that says of itself what it does in
// its INFO.
func judge(server, memory string) error {
	var errs []error
	version := field(server, "redis_version")
	var major, minor int
	if field(server, "valkey_version") == "" {
		if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil || major < 6 || major == 6 && minor < 2 {
			errs = append(errs, fmt.Errorf("needs Redis 6.2 or later, or Valkey (got version %q)", version))
		}
	}
	if policy := field(memory, "maxmemory_policy"); policy != "noeviction" {
		errs = append(errs, fmt.Errorf("maxmemory-policy is %q: %w", policy, ErrEvicts))
	}
	return errors.Join(errs...)
}

// field returns the value of a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
