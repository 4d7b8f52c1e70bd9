package middleware

import (
	"net/http"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"github.com/weir-go/weir/benchmarks/store"
)

func wrapUlule(q store.Quota, next http.Handler) http.Handler {
	rate := limiter.Rate{Period: q.Window, Limit: q.Burst}
	return stdlib.NewMiddleware(limiter.New(memory.NewStore(), rate)).Handler(next)
}
