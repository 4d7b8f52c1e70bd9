package middleware

import (
	"net/http"

	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/weir-go/weir/benchmarks/store"
)

func wrapGoLimiter(q store.Quota, next http.Handler) http.Handler {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.Burst), Interval: q.Window})
	if err != nil {
		panic(err)
	}
	m, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		panic(err)
	}
	return m.Handle(next)
}
