package framework

import (
	"net"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/httprate"
	"github.com/weir-go/weir/benchmarks/store"
	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// limit is the limit of weir in every framework.
func limit(q store.Quota) limits.Limit {
	return limits.SlidingWindow(limits.Per(q.Burst, q.Window))
}

func serveMux(
	limiter func(store.Quota) func(http.Handler) http.Handler,
) func(store.Quota) http.Handler {
	return func(q store.Quota) http.Handler {
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/items", noContent)
		if limiter == nil {
			return mux
		}
		return limiter(q)(mux)
	}
}

func limitMux(q store.Quota) func(http.Handler) http.Handler {
	return nethttp.MustNew(nethttp.Config{Rules: []nethttp.Rule{{
		Name: "per-client", Limit: limit(q), Key: keyfuncs.Address(keyfuncs.Peer),
	}}}).Handler
}

func serveChi(
	limiter func(store.Quota) func(http.Handler) http.Handler,
) func(store.Quota) http.Handler {
	return func(q store.Quota) http.Handler {
		r := chi.NewRouter()
		if limiter != nil {
			r.Use(limiter(q))
		}
		r.Get("/v1/items", noContent)
		return r
	}
}

// limitHTTPRate uses the key function that httprate's documentation recommends instead of its
// deprecated KeyByIP.
func limitHTTPRate(q store.Quota) func(http.Handler) http.Handler {
	return httprate.LimitBy(int(q.Burst), q.Window, func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			return "", err
		}
		return httprate.CanonicalizeIP(host), nil
	})
}

func limitChi(q store.Quota) func(http.Handler) http.Handler {
	return chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
		Name: "per-client", Limit: limit(q), Key: keyfuncs.Address(keyfuncs.Peer),
	}}}).Handler
}
