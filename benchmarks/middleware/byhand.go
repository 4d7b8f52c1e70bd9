package middleware

import (
	"net"
	"net/http"
	"sync"

	"github.com/weir-go/weir/benchmarks/store"
	"golang.org/x/time/rate"
)

// wrapByHand is the middleware that many people write themselves: a map of limiters behind a mutex,
// a status and a line of text.
func wrapByHand(q store.Quota, next http.Handler) http.Handler {
	var mu sync.Mutex
	limiters := make(map[string]*rate.Limiter)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError),
				http.StatusInternalServerError)
			return
		}
		mu.Lock()
		l, ok := limiters[host]
		if !ok {
			l = rate.NewLimiter(rate.Every(q.Refill), int(q.Burst))
			limiters[host] = l
		}
		mu.Unlock()
		if !l.Allow() {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}
