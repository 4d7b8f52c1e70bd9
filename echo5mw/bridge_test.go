package echo5mw_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/nethttp"
)

func TestABridgeChargesWhatItHidesAndIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		limiter := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: "login", Limit: limits.FixedWindow(limits.PerDay(10)),
				Key:       keyfuncs.Constant[*http.Request]("everybody"),
				FinalCost: core.OnStatus(func(status int) bool { return status == 401 }),
			}},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		e := echo.New()
		e.Use(echo.WrapMiddleware(limiter.Handler))
		e.POST("/wrong", func(*echo.Context) error { return echo.ErrUnauthorized })
		e.POST("/right", func(c *echo.Context) error { return c.String(200, "welcome") })
		post := func(path string) int {
			w := httptest.NewRecorder()
			e.ServeHTTP(w, httptest.NewRequest("POST", path, nil))
			return w.Code
		}
		for i := range 20 {
			if code := post("/right"); code != 200 {
				t.Errorf("log-in %d: %d", i, code)
			}
		}
		if synctest.Wait(); log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
		for i := range 15 {
			want := 401
			if i >= 10 {
				want = 429
			}
			if code := post("/wrong"); code != want {
				t.Errorf("wrong password %d: %d, want %d", i, code, want)
			}
		}
		synctest.Wait()
		if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), "use echo5mw") {
			t.Errorf("logged %s", &log)
		}
	})
}
