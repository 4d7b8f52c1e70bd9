package fibermw_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/keyfuncs"
	"github.com/weir-go/weir/limits"
)

// perDay is a limiter that allows n requests.
func perDay(n int64, key func(fiber.Ctx) (string, error)) *fibermw.Limiter {
	return fibermw.MustNew(perDayConfig(n, key))
}

func perDayConfig(n int64, key func(fiber.Ctx) (string, error)) fibermw.Config {
	return fibermw.Config{
		Rules: []fibermw.Rule{{Name: "test", Limit: limits.TokenBucket(limits.PerDay(n), n), Key: key}},
	}
}

var everybody = keyfuncs.Constant[fiber.Ctx]("everybody")

func want(t *testing.T, app *fiber.App, method, path string, status int,
	fields ...string) (body string, h http.Header) {
	t.Helper()
	w := ask(app, method, path, fields...)
	if w.Code != status {
		t.Errorf("%s %s: status %d, want %d; fields %v, content %q", method, path, w.Code, status, w.Header(), w.Body)
	}
	return w.Body.String(), w.Header()
}

func TestALimiterMayStandInAMountedApp(t *testing.T) {
	app, inner := fiber.New(), fiber.New()
	app.Get("/free", hi)
	inner.Use(perDay(1, everybody).Middleware())
	inner.Get("/", hi)
	app.Use("/limited", inner)
	want(t, app, "GET", "/limited", 200)
	want(t, app, "GET", "/limited", 429)
	want(t, app, "GET", "/no/such/page", 404)
	want(t, app, "GET", "/free", 200)
}

func TestADenialIsNotGivenToTheErrorHandler(t *testing.T) {
	var handled, returned []error
	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
		handled = append(handled, err)
		return c.Status(http.StatusTeapot).SendString("replaced")
	}})
	app.Use(func(c fiber.Ctx) error {
		err := c.Next()
		returned = append(returned, err)
		return err
	})
	app.Use(perDay(1, everybody).Middleware())
	app.Get("/", hi)
	want(t, app, "GET", "/", 200)
	body, _ := want(t, app, "GET", "/", 429)
	if len(handled) != 0 || errors.Join(returned...) != nil || !strings.Contains(body, "quota-exceeded") {
		t.Errorf("handled %v, returned %v, content %s", handled, returned, body)
	}
}

func TestADenialMayBeGivenToTheErrorHandler(t *testing.T) {
	config := perDayConfig(1, everybody)
	config.Denied = func(_ fiber.Ctx, o core.Outcome) error {
		return fiber.NewError(http.StatusTooManyRequests, "slow down: "+o.At(0).Rule())
	}
	app := fiber.New()
	app.Use(fibermw.MustNew(config).Middleware())
	app.Get("/", hi)
	want(t, app, "GET", "/", 200)
	body, h := want(t, app, "GET", "/", 429)
	if body != "slow down: test" {
		t.Errorf("content %s", body)
	}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy", "Cache-Control"} {
		if h.Get(name) == "" {
			t.Errorf("fields %v: want %s", h, name)
		}
	}
}

func TestADenialReplacesWhatIsWrittenAndKeepsOtherFields(t *testing.T) {
	app := fiber.New()
	app.Use(func(c fiber.Ctx) error {
		c.Set("X-Request-Id", "7")
		c.Append("Vary", "Origin")
		c.Cookie(&fiber.Cookie{Name: "a", Value: "b"})
		c.Set("Etag", `"1"`)
		c.Set("Content-Encoding", "br")
		if err := c.Status(http.StatusAccepted).SendString("already said."); err != nil {
			return err
		}
		return c.Next()
	})
	app.Use(perDay(1, everybody).Middleware())
	app.Get("/", hi)
	want(t, app, "GET", "/", 202)
	body, h := want(t, app, "GET", "/", 429)
	if !strings.HasPrefix(body, "{") || h.Get("X-Request-Id") != "7" || h.Get("Vary") != "Origin" ||
		!strings.HasPrefix(h.Get("Set-Cookie"), "a=b") || h.Get("Etag") != "" || h.Get("Content-Encoding") != "" {
		t.Errorf("fields %v, content %s", h, body)
	}
}

func TestAHEADIsDeniedWithTheFieldsOfAGET(t *testing.T) {
	app := fiber.New()
	app.Use(perDay(1, everybody).Middleware())
	app.Get("/", hi)
	want(t, app, "HEAD", "/", 200)
	body, get := want(t, app, "GET", "/", 429)
	none, head := want(t, app, "HEAD", "/", 429)
	if none != "" || body == "" || head.Get("Content-Length") != get.Get("Content-Length") ||
		head.Get("Content-Type") != "application/problem+json" {
		t.Errorf("content %q, fields %v, of GET %v", none, head, get)
	}
}

func TestTheOutcomeIsThatOfTheInnermostLimiter(t *testing.T) {
	outer, inner := perDayConfig(9, everybody), perDayConfig(1, everybody)
	outer.OutcomeInContext, inner.OutcomeInContext = true, true
	seen := ""
	verdict := func(c fiber.Ctx) string {
		o, known := fibermw.OutcomeFrom(c)
		if !known {
			return "unknown"
		}
		return o.Verdict().String()
	}
	inner.Denied = func(c fiber.Ctx, _ core.Outcome) error {
		return fiber.NewError(http.StatusTooManyRequests, "Denied sees "+verdict(c))
	}
	handled := ""
	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
		handled = verdict(c)
		return fiber.DefaultErrorHandler(c, err)
	}})
	app.Use(func(c fiber.Ctx) error {
		before := verdict(c)
		err := c.Next()
		seen = before + ", then " + verdict(c)
		return err
	})
	app.Use(fibermw.MustNew(outer).Middleware())
	app.Get("/", fibermw.MustNew(inner).Middleware(), hi)
	if want(t, app, "GET", "/", 200); seen != "unknown, then allowed" || handled != "" {
		t.Errorf("seen %q, handled %q", seen, handled)
	}
	body, _ := want(t, app, "GET", "/", 429)
	if seen != "unknown, then denied" || handled != "denied" || body != "Denied sees denied" {
		t.Errorf("seen %q, handled %q, content %q", seen, handled, body)
	}
}

// Fiber calls the ErrorHandler after all middleware, and redirects there, for example to a log-in.
func TestARedirectOfTheErrorHandlerHasNoFields(t *testing.T) {
	config := perDayConfig(9, everybody)
	config.Headers = headers.Options{NotOnRedirects: true}
	called := 0
	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
		called++
		return c.Redirect().Status(http.StatusFound).To("/login")
	}})
	app.Use(fibermw.MustNew(config).Middleware())
	app.Get("/private", func(fiber.Ctx) error { return errors.New("sign in first") })
	app.Get("/moved", func(c fiber.Ctx) error { return c.Redirect().To("/login") })
	app.Get("/login", hi)
	for path, status := range map[string]int{"/private": 302, "/moved": 303} {
		if _, h := want(t, app, "GET", path, status); h.Get("RateLimit") != "" || h.Get("Location") != "/login" {
			t.Errorf("%s: fields %v", path, h)
		}
	}
	if called != 1 {
		t.Errorf("the ErrorHandler was called %d times", called)
	}
	if _, h := want(t, app, "GET", "/login", 200); h.Get("RateLimit") == "" {
		t.Errorf("fields %v", h)
	}
}

// Fiber calls middleware for requests that it refuses, too.
func TestRequestsThatFiberRefusesCount(t *testing.T) {
	app := fiber.New(fiber.Config{BodyLimit: 4})
	app.Use(perDay(2, everybody).Middleware())
	app.Post("/", hi)
	_, h := want(t, app, "POST", "/", 200)
	if h.Get("RateLimit") == "" {
		t.Errorf("fields %v", h)
	}
	raw := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345"
	if status, h := converse(t, app, raw); status != 413 || h.Get("RateLimit") == "" {
		t.Errorf("%d, fields %v", status, h)
	}
	if status, h := converse(t, app, raw); status != 413 || h.Get("Retry-After") == "" {
		t.Errorf("%d, fields %v", status, h)
	}
	want(t, app, "POST", "/", 429)
}

func TestHeadersThatCannotBeKeysAreNil(t *testing.T) {
	for _, name := range []string{"Host", ""} {
		if fibermw.Header(name) != nil {
			t.Errorf("Header(%q) must be nil, for New to report", name)
		}
	}
}
