package middleware

import (
	"net/http"

	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func weir() []Contestant {
	return []Contestant{
		{"weir, sliding window", wrapWeir(func(q store.Quota) limits.Limit {
			return limits.SlidingWindow(limits.Per(q.Burst, q.Window))
		}), Weir},
		{"weir, token bucket", wrapWeir(func(q store.Quota) limits.Limit {
			return limits.TokenBucket(limits.Per(1, q.Refill), q.Burst)
		}), Weir},
	}
}

// wrapWeir uses one rule and all defaults: the IETF draft's header fields and, for this client, a
// problem document.
func wrapWeir(limit func(store.Quota) limits.Limit) func(store.Quota, http.Handler) http.Handler {
	return func(q store.Quota, next http.Handler) http.Handler {
		return nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name:  "per-client",
				Limit: limit(q),
				Key:   keyfuncs.Address(keyfuncs.Peer),
			}},
		}).Handler(next)
	}
}
