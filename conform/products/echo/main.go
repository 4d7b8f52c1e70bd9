// Echo serves a page of echo behind its own middleware. Its rate is by the second: 5, in bursts of 10.
package main

import (
	"log"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
)

func main() {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPFromXFFHeader(echo.TrustPrivateNet(false)) // from proxies on this machine
	e.Use(middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Store: middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: 5, Burst: 10, ExpiresIn: 3 * time.Minute,
		}),
	}))
	e.Any("/", func(c *echo.Context) error { return c.String(http.StatusOK, "Hello.\n") })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), e))
}
