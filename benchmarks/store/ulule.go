package store

import (
	"context"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

type ululeStore struct{ limiter *limiter.Limiter }

func openUlule(q Quota, keys int) Store {
	options := limiter.StoreOptions{
		Prefix: limiter.DefaultPrefix, CleanUpInterval: limiter.DefaultCleanUpInterval,
	}
	if keys > 0 {
		options.CleanUpInterval = time.Hour // default: 30 seconds
	}
	rate := limiter.Rate{Period: q.Window, Limit: q.Burst}
	return ululeStore{limiter.New(memory.NewStoreWithOptions(options), rate)}
}

func (s ululeStore) Decider() Decider { return s }

func (s ululeStore) Allow(key string) bool {
	c, err := s.limiter.Get(context.Background(), key)
	return !c.Reached && err == nil
}
