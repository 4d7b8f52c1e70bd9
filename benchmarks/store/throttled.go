package store

import (
	"context"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

type throttledStore struct{ limiter *throttled.GCRARateLimiterCtx }

func openThrottledMap(q Quota, _ int) Store { return openThrottled(q, 0) }

// openThrottledLRU limits the store to 65,536 keys, as throttled's examples do, unless the
// benchmark needs room for more.
func openThrottledLRU(q Quota, keys int) Store { return openThrottled(q, max(keys, 65_536)) }

func openThrottled(q Quota, keys int) Store {
	store, err := memstore.NewCtx(keys)
	if err != nil {
		panic(err)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(1, q.Refill),
		MaxBurst: int(q.Burst) - 1, // in addition to the one that a rate always allows
	})
	if err != nil {
		panic(err)
	}
	return throttledStore{limiter}
}

func (s throttledStore) Decider() Decider { return s }

func (s throttledStore) Allow(key string) bool {
	limited, _, err := s.limiter.RateLimitCtx(context.Background(), key, 1)
	return !limited && err == nil
}
