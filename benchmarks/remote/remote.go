// Package remote sets up every contestant to decide one request of one key in
// one Redis, through the same go-redis client. What a contestant does besides
// the call that its users would make is what the benchmark measures wrongly.
package remote

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Decide decides one request of key. It returns an error if the contestant
// failed, or denied what should be allowed.
type Decide func(ctx context.Context, key string) error

// Contestant is one way to decide by key in Redis.
type Contestant struct {
	Name string
	Open func(*redis.Client) (Decide, error)
	// Against says what it is compared with.
	Against []Comparison
}

// Comparison is with a contestant of which a share of the decisions per second
// is to be reached, 0 if that only explains the others.
type Comparison struct {
	With   string
	Target float64
}

// What each key may spend: never all of it within a run.
const (
	burst  = 1_000_000
	refill = 600 * time.Millisecond
)

const (
	floor    = "(floor: TIME, GET, SET)"
	bare     = "bare GCRA script"
	bareAuto = "bare GCRA script, auto-pipeliner"
	rate     = "redis_rate"
	fixed    = "ulule, fixed window"
)

// Contestants returns all of them, peers first.
func Contestants() []Contestant {
	return []Contestant{
		{floor, openLeast, []Comparison{{bare, 0}, {rate, 0}, {fixed, 0}}},
		{bare, openBare, nil},
		{rate, openRedisRate, nil},
		{fixed, openUlule, nil},
		{"weir, token bucket", openWeir(tokenBucket), []Comparison{{bare, 0.85}, {rate, 1.25}}},
		{"weir, sliding window", openWeir(slidingWindow), []Comparison{{bare, 0.85}}},
		{"weir, fixed window", openWeir(fixedWindow), []Comparison{{fixed, 1}}},
		{"weir, three rules", openWeir(tokenBucket, fixedWindow, slidingWindow), []Comparison{{bare, 0.55}}},
		{bareAuto, openBareAuto, nil},
		{"weir, token bucket, auto-pipeliner", openWeirAuto, []Comparison{{bareAuto, 0.85}}},
	}
}
