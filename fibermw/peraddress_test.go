package fibermw_test

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/internal/proof/parity"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/limits/backends"
)

func TestPerAddress(t *testing.T) {
	parity.RunPerAddress(t, func(
		rate limits.Rate, source func(fiber.Ctx) (netip.Addr, error), backend ...backends.Backend,
	) (http.Handler, error) {
		limiter, err := fibermw.PerAddress(rate, source, backend...)
		if err != nil {
			return nil, err
		}
		a := fiber.New(fiber.Config{DisableDefaultDate: true})
		a.Use(setContext, limiter.Middleware())
		a.Get("/hello", func(c fiber.Ctx) error { return write(c, parity.Hello) })
		return serverOf(a), nil
	}, fibermw.Lift[netip.Addr])
}
