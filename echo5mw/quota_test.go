package echo5mw_test

import (
	"net/http"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/internal/proof/parity"
)

func TestQuota(t *testing.T) {
	parity.RunQuota(t, func(t *testing.T, c parity.Config[*echo.Context], routes ...string) http.Handler {
		limiter, err := echo5mw.New(echo5mw.Config{Rules: c.Rules, Backend: c.Backend, Headers: c.Headers})
		if err != nil {
			t.Fatal(err)
		}
		quota := limiter.Quota(routes...)
		e := echo.New()
		e.Match([]string{"GET", "HEAD"}, "/rate_limit", func(c *echo.Context) error {
			err := quota(c)
			if c.Request().URL.Path != "/rate_limit" {
				t.Errorf("the request is left as %s", c.Request().URL)
			}
			return err
		})
		hello := func(c *echo.Context) error { parity.Hello(c.Response()); return nil }
		e.GET("/hello", hello, limiter.Middleware())
		e.POST("/items", hello, limiter.Middleware())
		return e
	}, echo5mw.Lift[string])
}
