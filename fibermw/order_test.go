package fibermw_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/cache"
	"github.com/gofiber/fiber/v3/middleware/idempotency"
	"github.com/gofiber/fiber/v3/middleware/proxy"
	"github.com/gofiber/fiber/v3/middleware/timeout"
	"github.com/valyala/fasthttp"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// perUser is a limiter of requests by the field X-User.
func perUser(name string, n int64, options headers.Options) *fibermw.Limiter {
	return fibermw.MustNew(fibermw.Config{
		Rules: []fibermw.Rule{{
			Name: name, Limit: limits.FixedWindow(limits.Per(n, 24*time.Hour)), Key: fibermw.Header("X-User"),
		}},
		Headers: options,
	})
}

// Inside a limiter, others answer with the header of another answer.
func TestTheFieldsAreThoseOfTheRequestInAnyOrder(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", `"backend";r=1;t=1`)
	}))
	defer backend.Close()
	// The proxy of Fiber 3.5 refuses the address of a backend on this machine.
	client := &fasthttp.Client{Dial: func(string) (net.Conn, error) {
		return net.Dial("tcp", backend.Listener.Addr().String())
	}}
	release := make(chan bool)
	defer close(release)
	late := timeout.New(func(c fiber.Ctx) error { <-release; return nil },
		timeout.Config{Timeout: time.Millisecond})
	full := shed.MustNew(shed.Options[fiber.Ctx]{Limit: 1})
	p, _ := full.Acquire(t.Context(), nil)
	defer p.End(shed.Result{})
	x := headers.Options{Formats: []headers.Format{headers.GitHub}}
	for _, c := range []struct {
		name    string
		options headers.Options
		inside  []any // and then hi
		status  int
		field   string
		want    []string // of user a, a and b
	}{
		{"a proxy", headers.Options{}, []any{func(c fiber.Ctx) error { return proxy.Do(c, "http://192.0.2.1", client) }},
			200, "RateLimit", []string{"r=8", "r=7", "r=8"}},
		{"a cache with stored fields", headers.Options{},
			[]any{cache.New(cache.Config{StoreResponseHeaders: true})}, 200, "RateLimit",
			[]string{"r=8", "r=7", "r=8"}},
		{"a key of idempotency", headers.Options{}, []any{idempotency.New()}, 200, "RateLimit",
			[]string{"r=8", "r=7", "r=8"}},
		{"a time-out", headers.Options{}, []any{late}, 408, "RateLimit", []string{"r=8", "r=7", "r=8"}},
		{"an inner limiter that binds", x, []any{perUser("inner", 3, x).Middleware()}, 200,
			"X-RateLimit-Remaining", []string{"2", "1", "2"}},
		{"an inner limiter that denies", headers.Options{}, []any{perUser("inner", 1, headers.Options{}).Middleware()},
			0, "RateLimit", []string{`"outer";r=8`, `"inner";r=0`, `"inner";r=0`}},
		{"a shedder", headers.Options{}, []any{fibermw.Shed(full)}, 503, "RateLimit", []string{"", "", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			app := fiber.New()
			app.Use(perUser("outer", 9, c.options).Middleware())
			app.Use(c.inside...)
			app.All("/", hi)
			handler := serverOf(app)
			for i, user := range []string{"a", "a", "b"} {
				method := "GET"
				if strings.HasPrefix(c.name, "a key") {
					method = "POST"
				}
				r := httptest.NewRequest(method, "/", nil)
				r.Header.Set("X-User", user)
				r.Header.Set("X-Idempotency-Key", "12345678-1234-1234-1234-123456789012")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if c.status != 0 && w.Code != c.status {
					t.Errorf("request %d: %d, want %d", i, w.Code, c.status)
				}
				lines := w.Result().Header.Values(c.field)
				if got := strings.Join(lines, "|"); !strings.Contains(got, c.want[i]) || c.want[i] == "" && got != "" ||
					len(lines) > 1 {
					t.Errorf("request %d: %s: %q, want one line with %s", i, c.field, lines, c.want[i])
				}
			}
		})
	}
}
