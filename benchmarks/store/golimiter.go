package store

import (
	"context"

	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
)

type goLimiter struct{ store limiter.Store }

func openGoLimiter(q Quota, _ int) Store {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.Burst), Interval: q.Window})
	if err != nil {
		panic(err)
	}
	return goLimiter{store}
}

func (s goLimiter) Decider() Decider { return s }

func (s goLimiter) Allow(key string) bool {
	_, _, _, ok, err := s.store.Take(context.Background(), key)
	return ok && err == nil
}
