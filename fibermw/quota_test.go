package fibermw_test

import (
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/internal/proof/parity"
)

func TestQuota(t *testing.T) {
	parity.RunQuota(t, func(t *testing.T, c parity.Config[fiber.Ctx], routes ...string) http.Handler {
		limiter, err := fibermw.New(fibermw.Config{Rules: c.Rules, Backend: c.Backend, Headers: c.Headers})
		if err != nil {
			t.Fatal(err)
		}
		a := fiber.New(fiber.Config{ErrorHandler: answerError, DisableDefaultDate: true})
		a.Use(setContext)
		a.Get("/rate_limit", limiter.Quota(routes...))
		hello := func(c fiber.Ctx) error { return write(c, parity.Hello) }
		a.Get("/hello", limiter.Middleware(), hello)
		a.Post("/items", limiter.Middleware(), hello)
		return serverOf(a)
	}, fibermw.Lift[string])
}
