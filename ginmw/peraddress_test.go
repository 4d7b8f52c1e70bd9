package ginmw_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func TestPerAddress(t *testing.T) {
	parity.RunPerAddress(t, func(
		rate limits.Rate, source func(*gin.Context) (netip.Addr, error), backend ...backends.Backend,
	) (http.Handler, error) {
		limiter, err := ginmw.PerAddress(rate, source, backend...)
		if err != nil {
			return nil, err
		}
		r := gin.New()
		r.Use(limiter.Handler())
		r.GET("/hello", func(c *gin.Context) { parity.Hello(c.Writer) })
		return r, nil
	}, ginmw.Lift[netip.Addr])
}
