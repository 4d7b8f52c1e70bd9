package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
)

var (
	tokenBucket   = limits.TokenBucket(limits.Per(1, refill), burst)
	fixedWindow   = limits.FixedWindow(limits.Per(burst, time.Hour))
	slidingWindow = limits.SlidingWindow(limits.Per(burst, time.Hour))
)

func openWeir(choices ...limits.Limit) func(*redis.Client) (Decide, error) {
	return func(client *redis.Client) (Decide, error) { return take(client, choices), nil }
}

func openWeirAuto(client *redis.Client) (Decide, error) {
	auto, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return take(auto, []limits.Limit{tokenBucket}), nil
}

// take decides by one rule for each limit.
func take(client redis.Scripter, choices []limits.Limit) Decide {
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	var rules [3]backends.Charge
	for i, limit := range choices {
		rules[i] = backends.Charge{
			Scope: fmt.Sprintf("%v-of-%d", limit.Algorithm(), len(choices)), Limit: limit, Cost: 1,
		}
	}
	return func(ctx context.Context, key string) error {
		charges := rules
		for i := range choices {
			charges[i].Key = key
		}
		var out [len(charges)]limits.Decision
		if err := backend.Take(ctx, charges[:len(choices)], out[:len(choices)]); err != nil {
			return err
		}
		for _, d := range out[:len(choices)] {
			if !d.Allowed {
				return ErrDenied
			}
		}
		return nil
	}
}
