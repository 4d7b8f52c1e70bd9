package remote

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// leasePerSecond is the limit of each key of the group lease. No key uses it up.
const leasePerSecond = 10_000_000

// Names of the contestants of the group lease.
const (
	Bare   = bare
	Rate   = rate
	Direct = "weir, NewStack"
	Leased = "weir, NewStack with Lease"
)

// LeaseContestants returns the contestants of the group lease. Each decides by a token bucket of
// 10,000,000 a second.
func LeaseContestants() []Contestant {
	return []Contestant{
		{Bare, openBareFast, nil},
		{Rate, openRedisRateFast, nil},
		{Direct, openStack(0), nil},
		{Leased, openStack(time.Second), nil},
	}
}

func openBareFast(client *redis.Client) (Decide, error) {
	return func(ctx context.Context, key string) error {
		// An interval of 1 µs is the shortest that the script supports.
		reply, err := gcra.Run(ctx, client, []string{"bare-fast:" + key}, 1, leasePerSecond,
			1).Int64Slice()
		if err == nil && reply[0] == 0 {
			err = ErrDenied
		}
		return err
	}, nil
}

func openRedisRateFast(client *redis.Client) (Decide, error) {
	limiter := redis_rate.NewLimiter(client)
	return func(ctx context.Context, key string) error {
		result, err := limiter.Allow(ctx, "fast:"+key, redis_rate.PerSecond(leasePerSecond))
		if err == nil && result.Allowed == 0 {
			err = ErrDenied
		}
		return err
	}, nil
}

func openStack(lease time.Duration) func(*redis.Client) (Decide, error) {
	return func(client *redis.Client) (Decide, error) {
		backend := redisbackend.MustNewBare(client,
			redisbackend.BareOptions{Prefix: fmt.Sprintf("lease-%v", lease)})
		stack := remote.MustNewStack(backend,
			remote.StackOptions{Lease: lease, Budget: 10 * time.Second})
		limit := limits.TokenBucket(limits.PerSecond(leasePerSecond), leasePerSecond)
		return func(ctx context.Context, key string) error {
			charges := [1]backends.Charge{{Scope: "s", Key: key, Limit: limit, Cost: 1}}
			var out [1]limits.Decision
			if err := stack.Take(ctx, charges[:], out[:]); err != nil {
				return err
			}
			if !out[0].Allowed {
				return ErrDenied
			}
			return nil
		}, nil
	}
}

// Calls returns the number of scripts that clients have called.
func (s *Server) Calls(ctx context.Context, client *redis.Client) (calls float64, err error) {
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		name, stats, ok := strings.Cut(strings.TrimSpace(line), ":calls=")
		if ok && strings.HasPrefix(name, "cmdstat_eval") {
			var n float64
			if _, err := fmt.Sscanf(stats, "%g", &n); err != nil {
				return 0, fmt.Errorf("INFO commandstats: %q: %w", line, err)
			}
			calls += n
		}
	}
	return calls, nil
}
