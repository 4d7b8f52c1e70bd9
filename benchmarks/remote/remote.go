// Package remote sets up every contestant to decide one request of one key in one Redis, through
// the same go-redis client. A contestant must only make the call that its users would make;
// anything else would distort the benchmark.
package remote

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Decide decides one request of key. It returns an error if the contestant failed, or denied a
// request that it should allow.
type Decide func(ctx context.Context, key string) error

// Contestant is one way to decide by key in Redis.
type Contestant struct {
	Name string
	Open func(*redis.Client) (Decide, error)
	// Against are the contestants to compare it with.
	Against []Comparison
}

// Comparison names a contestant, and the share of its decisions per second to reach with 1, 16 and
// 128 goroutines; 0 if the comparison is only for information.
type Comparison struct {
	With    string
	Targets [3]float64
}

// The limit of each key, which no key uses up within a run.
const (
	burst  = 1_000_000
	refill = 600 * time.Millisecond
)

const (
	floor    = "(floor: TIME, GET, SET)"
	bare     = "bare GCRA script"
	bareAuto = "bare GCRA script, auto-pipeliner"
	bareFast = "bare GCRA script, rueidis"
	rate     = "redis_rate"
	fixed    = "ulule, fixed window"
)

var none [3]float64

func alone(target float64) [3]float64 { return [3]float64{target, 0, 0} }
func many(target float64) [3]float64  { return [3]float64{0, target, target} }
func all(target float64) [3]float64   { return [3]float64{target, target, target} }

// Contestants returns all of them, peers first.
func Contestants() []Contestant {
	return []Contestant{
		{floor, openLeast, []Comparison{{bare, none}, {rate, none}, {fixed, none}}},
		{bare, openBare, nil},
		{bareFast, openBareRueidis, nil},
		{rate, openRedisRate, nil},
		{fixed, openUlule, nil},
		{"weir, token bucket", openWeir(tokenBucket),
			[]Comparison{{bare, alone(0.9)}, {rate, alone(1)}, {bareFast, many(1)}}},
		{"weir, sliding window", openWeir(slidingWindow),
			[]Comparison{{bare, alone(0.9)}, {rate, alone(1)}, {bareFast, many(1)}}},
		{"weir, fixed window", openWeir(fixedWindow), []Comparison{{fixed, all(1)}}},
		{"weir, three rules", openWeir(tokenBucket, fixedWindow, slidingWindow),
			[]Comparison{{bare, all(0.55)}, {"weir, token bucket", all(1 / 1.5)}}},
		{bareAuto, openBareAuto, nil},
		{"weir, token bucket, auto-pipeliner", openWeirAuto, []Comparison{{bareAuto, all(0.85)}}},
	}
}
