package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/redisbackend"
)

var (
	tokenBucket   = core.TokenBucket(core.Per(1, refill), burst)
	fixedWindow   = core.FixedWindow(core.Per(burst, time.Hour))
	slidingWindow = core.SlidingWindow(core.Per(burst, time.Hour))
)

func openWeir(limits ...core.Limit) func(*redis.Client) (Decide, error) {
	return func(client *redis.Client) (Decide, error) { return take(client, limits), nil }
}

func openWeirAuto(client *redis.Client) (Decide, error) {
	auto, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return take(auto, []core.Limit{tokenBucket}), nil
}

// take decides by one rule for each limit.
func take(client redis.Scripter, limits []core.Limit) Decide {
	backend := redisbackend.New(client, redisbackend.Options{})
	var rules [3]core.Charge
	for i, limit := range limits {
		rules[i] = core.Charge{Scope: fmt.Sprintf("%v-of-%d", limit.Algorithm(), len(limits)), Limit: limit, Cost: 1}
	}
	return func(ctx context.Context, key string) error {
		charges := rules
		for i := range limits {
			charges[i].Key = key
		}
		var out [len(charges)]core.Decision
		if err := backend.Take(ctx, charges[:len(limits)], out[:len(limits)]); err != nil {
			return err
		}
		for _, d := range out[:len(limits)] {
			if !d.Allowed {
				return ErrDenied
			}
		}
		return nil
	}
}
