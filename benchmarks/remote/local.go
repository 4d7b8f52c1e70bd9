package remote

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/redisbackend"
	"github.com/weir-go/weir/remote"
)

// Spent opens backends on which one key has used up its units: through the plain client, and with a
// denial cache in front.
func Spent(client *redis.Client) (plain, cached Decide, err error) {
	backend := redisbackend.MustNewBare(client, redisbackend.BareOptions{Prefix: "spent"})
	charges := []backends.Charge{
		{Scope: "spent", Key: "198.51.100.7", Limit: limits.FixedWindow(limits.PerDay(1)), Cost: 1},
	}
	denied := func(b backends.Backend) Decide {
		return func(ctx context.Context, _ string) error {
			var out [1]limits.Decision
			if err := b.Take(ctx, charges, out[:]); err != nil {
				return err
			}
			if out[0].Allowed {
				return errors.New("allowed what should be denied")
			}
			return nil
		}
	}
	var out [1]limits.Decision
	if err := backend.Take(context.Background(), charges, out[:]); err != nil {
		return nil, nil, err
	}
	cache := remote.MustNewDenialCache(backend, remote.DenialCacheOptions{MaxAge: time.Hour})
	return denied(backend), denied(cache), nil
}

// Dead opens a breaker that is open, because no server listens at the address of its Redis. Its
// decisions are errors, as they should be.
func Dead() (Decide, error) {
	logging.Disable()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	bare := redisbackend.MustNewBare(client, redisbackend.BareOptions{})
	b := remote.MustNewBreaker(bare,
		remote.BreakerOptions{OpenFor: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	charges := []backends.Charge{{Scope: "dead", Key: "198.51.100.7", Limit: tokenBucket, Cost: 1}}
	decide := func(ctx context.Context, _ string) error {
		var out [1]limits.Decision
		if err := b.Take(ctx, charges, out[:]); !errors.Is(err, remote.ErrOpen) {
			return errors.Join(errors.New("the breaker is not open"), err)
		}
		return nil
	}
	for deadline := time.Now().Add(time.Minute); b.Status().State != "open"; {
		if time.Now().After(deadline) {
			return nil, errors.New("the breaker does not open")
		}
		var out [1]limits.Decision
		b.Take(context.Background(), charges, out[:])
	}
	return decide, nil
}
