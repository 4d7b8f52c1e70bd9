package chimw_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weir-go/weir/chimw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func TestPerAddress(t *testing.T) {
	parity.RunPerAddress(t, func(
		rate limits.Rate, source func(*http.Request) (netip.Addr, error), backend ...backends.Backend,
	) (http.Handler, error) {
		limiter, err := chimw.PerAddress(rate, source, backend...)
		if err != nil {
			return nil, err
		}
		r := chi.NewRouter()
		r.Use(limiter.Handler)
		r.Get("/hello", func(w http.ResponseWriter, _ *http.Request) { parity.Hello(w) })
		return r, nil
	}, func(f func(*http.Request) (netip.Addr, error)) func(*http.Request) (netip.Addr, error) { return f })
}
