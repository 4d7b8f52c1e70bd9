package middleware

import (
	"net/http"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/weir-go/weir/benchmarks/store"
)

func wrapThrottled(q store.Quota, next http.Handler) http.Handler {
	store, err := memstore.NewCtx(65_536)
	if err != nil {
		panic(err)
	}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate:  throttled.PerDuration(1, q.Refill),
		MaxBurst: int(q.Burst) - 1,
	})
	if err != nil {
		panic(err)
	}
	m := throttled.HTTPRateLimiterCtx{
		RateLimiter: limiter, VaryBy: &throttled.VaryBy{RemoteAddr: true},
	}
	return m.RateLimit(next)
}
