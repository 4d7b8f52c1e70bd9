package chimw_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func serveNothing(limit limits.Limit) http.Handler {
	r := chi.NewRouter()
	if limit != (limits.Limit{}) {
		r.Use(chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
			Name: "per-client", Limit: limit, Key: keyfuncs.Address(keyfuncs.Peer),
		}}}).Handler)
	}
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	return r
}

func TestTheAdapterCostsAsManyAllocationsAsThatOfNetHTTP(t *testing.T) {
	parity.Cost(t, 0, serveNothing)
}

func Benchmark(b *testing.B) { parity.Benchmark(b, serveNothing) }

// The key of a route in middleware given to Use, where the route is looked up ahead,
// and in middleware given to With, where chi knows it.
func BenchmarkRoutePattern(b *testing.B) {
	for name, build := range map[string]func(r chi.Router, limit func(http.Handler) http.Handler){
		"ahead": func(r chi.Router, limit func(http.Handler) http.Handler) {
			r.Use(limit)
			r.Get("/users/{id}", func(http.ResponseWriter, *http.Request) {})
		},
		"known": func(r chi.Router, limit func(http.Handler) http.Handler) {
			r.With(limit).Get("/users/{id}", func(http.ResponseWriter, *http.Request) {})
		},
	} {
		b.Run(name, func(b *testing.B) {
			r := chi.NewRouter()
			r.Route("/api", func(r chi.Router) {
				build(r, func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if key, _ := chimw.RoutePattern(r); key != "/api/users/{id}" {
							b.Errorf("found %q", key)
						}
						next.ServeHTTP(w, r)
					})
				})
			})
			request, _ := http.NewRequest("GET", "/api/users/1", nil)
			b.ReportAllocs()
			for b.Loop() {
				r.ServeHTTP(nil, request)
			}
		})
	}
}
