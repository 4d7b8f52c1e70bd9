package nethttp_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
	"github.com/weir-go/weir/nethttp"
)

func TestPerAddress(t *testing.T) {
	parity.RunPerAddress(t, func(
		rate limits.Rate, source func(*http.Request) (netip.Addr, error), backend ...backends.Backend,
	) (http.Handler, error) {
		limiter, err := nethttp.PerAddress(rate, source, backend...)
		if err != nil {
			return nil, err
		}
		return limiter.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			parity.Hello(w)
		})), nil
	}, func(f func(*http.Request) (netip.Addr, error)) func(*http.Request) (netip.Addr, error) { return f })
}
