package middleware

import (
	"net/http"

	"github.com/didip/tollbooth/v7"
	"github.com/weir-go/weir/benchmarks/store"
)

func wrapTollbooth(q store.Quota, next http.Handler) http.Handler {
	l := tollbooth.NewLimiter(1/q.Refill.Seconds(),
		nil).SetBurst(int(q.Burst)).SetIPLookups([]string{"RemoteAddr"})
	return tollbooth.LimitHandler(l, next)
}
