package fibermw_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"

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
		app := fiber.New()
		app.Use(adaptor.HTTPMiddleware(limiter.Handler))
		app.Post("/wrong", func(c fiber.Ctx) error { return c.SendStatus(401) })
		handler := serverOf(app)
		for i := range 15 {
			want := 401
			if i >= 10 {
				want = 429
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest("POST", "/wrong", nil))
			if w.Code != want {
				t.Errorf("wrong password %d: %d, want %d", i, w.Code, want)
			}
		}
		synctest.Wait()
		if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), "use fibermw") {
			t.Errorf("logged %s", &log)
		}
	})
}

func TestAFiberAppBehindNetHTTPIsNoBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		statuses := make(chan int, 1)
		limiter := nethttp.MustNew(nethttp.Config{
			Rules: []nethttp.Rule{{
				Name: "login", Limit: limits.FixedWindow(limits.PerDay(10)),
				Key:       keyfuncs.Constant[*http.Request]("everybody"),
				FinalCost: func(r core.Result) int64 { statuses <- r.Status; return 0 },
			}},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		app := fiber.New()
		app.Get("/", func(c fiber.Ctx) error { return nil })
		w := httptest.NewRecorder()
		limiter.Handler(adaptor.FiberApp(app)).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		synctest.Wait()
		if status := <-statuses; status != 200 || w.Code != 200 || log.Len() > 0 {
			t.Errorf("answered %d, ended with %d, logged %s", w.Code, status, &log)
		}
	})
}
