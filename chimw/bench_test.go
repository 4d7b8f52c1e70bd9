package chimw_test

import (
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/internal/parity"
	"github.com/weir-go/weir/keyfuncs"
)

func serveNothing(limit core.Limit) http.Handler {
	r := chi.NewRouter()
	if limit != (core.Limit{}) {
		r.Use(chimw.MustNew(chimw.Config{Rules: []chimw.Rule{{
			Name: "per-client", Limit: limit, Key: keyfuncs.Address(keyfuncs.Peer),
		}}}).Handler)
	}
	r.Get("/", func(http.ResponseWriter, *http.Request) {})
	return r
}

func TestTheAdapterCostsAtMostTwoAllocationsMoreThanThatOfNetHTTP(t *testing.T) {
	parity.Cost(t, serveNothing)
}

func Benchmark(b *testing.B) { parity.Benchmark(b, serveNothing) }
