package store

import (
	"time"

	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"
)

// echoStore is the store of echo's own rate limiter, without its middleware.
type echoStore struct {
	store *middleware.RateLimiterMemoryStore
}

func openEcho(q Quota, keys int) Store {
	config := middleware.RateLimiterMemoryStoreConfig{
		Rate: rate.Every(q.Refill), Burst: int(q.Burst),
	}
	if keys > 0 {
		config.ExpiresIn = time.Hour // 3 minutes by default
	}
	return echoStore{middleware.NewRateLimiterMemoryStoreWithConfig(config)}
}

func (s echoStore) Decider() Decider { return s }

func (s echoStore) Allow(key string) bool {
	ok, err := s.store.Allow(key)
	return ok && err == nil
}
