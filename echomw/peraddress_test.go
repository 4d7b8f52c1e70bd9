package echomw_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func TestPerAddress(t *testing.T) {
	parity.RunPerAddress(t, func(
		rate limits.Rate, source func(echo.Context) (netip.Addr, error), backend ...backends.Backend,
	) (http.Handler, error) {
		limiter, err := echomw.PerAddress(rate, source, backend...)
		if err != nil {
			return nil, err
		}
		e := echo.New()
		e.Use(limiter.Middleware())
		e.GET("/hello", func(c echo.Context) error { parity.Hello(c.Response()); return nil })
		return e, nil
	}, echomw.Lift[netip.Addr])
}
