package remote

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
)

// ErrDenied is the error of a denied request.
var ErrDenied = errors.New("denied what should be allowed")

// gcra is the shortest script that limits the rate of one key by the server's clock: TIME, GET,
// SET. It reports less than weir and does not store the limit with the state.
var gcra = redis.NewScript(gcraSource)

const gcraSource = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tat = tonumber(redis.call('GET', KEYS[1]) or now)
if tat < now then
  tat = now
end
local after = tat + interval * cost
local since = after - interval * burst
if since > now then
  return {0, 0, since - now}
end
redis.call('SET', KEYS[1], string.format('%.0f', after), 'PX', math.ceil((after - now) / 1000))
return {1, math.floor((now - since) / interval), 0}
`

// least runs the commands of every exact script with a state and the server's clock, and nothing
// else: it limits nothing. It shows how much of a decision is the time of Redis.
var least = redis.NewScript(`
redis.call('TIME')
redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
`)

func openLeast(client *redis.Client) (Decide, error) {
	return func(ctx context.Context, key string) error {
		return least.Run(ctx, client, []string{"least:" + key},
			"1t 1000000 600000 1 1700000000000000 600000 0", 1600).Err()
	}, nil
}

func runBare(ctx context.Context, client redis.Scripter, key string) error {
	reply, err := gcra.Run(ctx, client, []string{"bare:" + key}, refill.Microseconds(), burst,
		1).Int64Slice()
	if err == nil && reply[0] == 0 {
		err = ErrDenied
	}
	return err
}

func openBare(client *redis.Client) (Decide, error) {
	return func(ctx context.Context, key string) error { return runBare(ctx, client, key) }, nil
}

func openBareAuto(client *redis.Client) (Decide, error) {
	auto, err := client.AutoPipeline()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) error { return runBare(ctx, auto, key) }, nil
}

// openBareRueidis runs the bare script through rueidis, which pipelines the commands of all callers
// over few connections.
func openBareRueidis(client *redis.Client) (Decide, error) {
	fast, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{client.Options().Addr}, DisableCache: true,
	})
	if err != nil {
		return nil, err
	}
	script := rueidis.NewLuaScript(gcraSource)
	args := []string{strconv.FormatInt(refill.Microseconds(), 10), strconv.Itoa(burst), "1"}
	return func(ctx context.Context, key string) error {
		reply, err := script.Exec(ctx, fast, []string{"bare:" + key}, args).AsIntSlice()
		if err == nil && reply[0] == 0 {
			err = ErrDenied
		}
		return err
	}, nil
}

func openRedisRate(client *redis.Client) (Decide, error) {
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: int(time.Minute / refill), Burst: burst, Period: time.Minute}
	return func(ctx context.Context, key string) error {
		result, err := limiter.Allow(ctx, key, limit)
		if err == nil && result.Allowed == 0 {
			err = ErrDenied
		}
		return err
	}, nil
}

func openUlule(client *redis.Client) (Decide, error) {
	store, err := ululeredis.NewStoreWithOptions(client, limiter.StoreOptions{Prefix: "ulule"})
	if err != nil {
		return nil, err
	}
	instance := limiter.New(store, limiter.Rate{Limit: burst, Period: time.Hour})
	return func(ctx context.Context, key string) error {
		result, err := instance.Get(ctx, key)
		if err == nil && result.Reached {
			err = ErrDenied
		}
		return err
	}, nil
}
