package ginmw_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func serveNothing(limit limits.Limit) http.Handler {
	r := gin.New()
	if limit != (limits.Limit{}) {
		r.Use(ginmw.MustNew(ginmw.Config{Rules: []ginmw.Rule{{
			Name: "per-client", Limit: limit, Key: ginmw.Lift(keyfuncs.Address(keyfuncs.Peer)),
		}}}).Handler())
	}
	r.GET("/", func(*gin.Context) {})
	return r
}

func TestTheAdapterCostsAsManyAllocationsAsThatOfNetHTTP(t *testing.T) {
	parity.Cost(t, 0, serveNothing)
}

func Benchmark(b *testing.B) { parity.Benchmark(b, serveNothing) }
