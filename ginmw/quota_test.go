package ginmw_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/weir-go/weir/ginmw"
	"github.com/weir-go/weir/internal/proof/parity"
)

func TestQuota(t *testing.T) {
	parity.RunQuota(t, func(t *testing.T, c parity.Config[*gin.Context], routes ...string) http.Handler {
		limiter, err := ginmw.New(ginmw.Config{Rules: c.Rules, Backend: c.Backend, Headers: c.Headers})
		if err != nil {
			t.Fatal(err)
		}
		r := gin.New()
		r.Match([]string{"GET", "HEAD"}, "/rate_limit", limiter.Quota(routes...), func(c *gin.Context) {
			if c.Request.URL.Path != "/rate_limit" {
				t.Errorf("a later handler sees %s", c.Request.URL)
			}
		})
		hello := func(c *gin.Context) { parity.Hello(c.Writer) }
		r.GET("/hello", limiter.Handler(), hello)
		r.POST("/items", limiter.Handler(), hello)
		return r
	}, ginmw.Lift[string])
}
