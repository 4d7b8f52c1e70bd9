package echomw_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

func serveNothing(limit limits.Limit) http.Handler {
	e := echo.New()
	if limit != (limits.Limit{}) {
		e.Use(echomw.MustNew(echomw.Config{Rules: []echomw.Rule{{
			Name: "per-client", Limit: limit, Key: echomw.Lift(keyfuncs.Address(keyfuncs.Peer)),
		}}}).Middleware())
	}
	e.GET("/", func(echo.Context) error { return nil })
	return e
}

func TestTheAdapterCostsTwoAllocationsMoreThanThatOfNetHTTP(t *testing.T) {
	parity.Cost(t, 2, serveNothing)
}

func Benchmark(b *testing.B) { parity.Benchmark(b, serveNothing) }
