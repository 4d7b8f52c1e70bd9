package fibermw_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/headers"
	"github.com/weir-go/weir/limits"
	"github.com/weir-go/weir/shed"
)

// Fiber calls the OnTimeout of a program while the handlers inside still run, and abandons the
// context only afterwards. The race detector looks at these tests.

// patient answers for handlers whose time is up.
var patient = timeout.Config{Timeout: time.Millisecond, OnTimeout: func(c fiber.Ctx) error {
	return c.Status(http.StatusGatewayTimeout).SendString("late")
}}

// wantLate asks an app twice: the second answer is that of patient.
func wantLate(t *testing.T, app *fiber.App, path string, first int) {
	t.Helper()
	handler := serverOf(app)
	for i, want := range []int{first, http.StatusGatewayTimeout, http.StatusGatewayTimeout} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if late := w.Body.String() == "late"; w.Code != want || late != (want == 504) {
			t.Errorf("%s, request %d: status %d, want %d; content %q", path, i, w.Code, want, w.Body)
		}
		synctest.Wait()
	}
}

func next(c fiber.Ctx) error { return c.Next() }

func TestALateRequestInAQueueLeavesTheAnswerAlone(t *testing.T) {
	for name, change := range map[string]func(*fibermw.Config){
		"plain":   func(*fibermw.Config) {},
		"outcome": func(c *fibermw.Config) { c.OutcomeInContext = true },
		"denied": func(c *fibermw.Config) {
			c.Denied = func(c fiber.Ctx, _ core.Outcome) error { return c.SendString("denied") }
		},
		"slots": func(c *fibermw.Config) {
			c.Rules = append(c.Rules, fibermw.Rule{Name: "slots", Limit: limits.Concurrent(9), Key: everybody})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := fibermw.Config{Rules: []fibermw.Rule{{
					Name: "queue", Limit: limits.LeakyQueue(limits.PerMinute(1), 9), Key: everybody,
				}}}
				change(&config)
				limiter := fibermw.MustNew(config)
				app := fiber.New(fiber.Config{DisableDefaultDate: true})
				app.Use(timeout.New(next, patient), limiter.Middleware())
				app.Get("/", hi)
				wantLate(t, app, "/", http.StatusOK)
				if held := limiter.State().Held; held != 0 {
					t.Errorf("%d units are held", held)
				}
			})
		})
	}
}

func TestALateRequestInAShedderLeavesTheAnswerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shedder := shed.MustNew(shed.Options[fiber.Ctx]{Limit: 1, MaxWaiting: 9, MaxWait: time.Minute})
		app := fiber.New(fiber.Config{DisableDefaultDate: true})
		release := make(chan bool)
		app.Use(timeout.New(next, patient), fibermw.Shed(shedder))
		app.Get("/", func(fiber.Ctx) error { <-release; return context.Canceled })
		wantLate(t, app, "/", http.StatusGatewayTimeout)
		close(release)
	})
}

func TestAHandlerThatGivesUpLeavesTheAnswerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := make(chan core.Result, 9)
		limiter := fibermw.MustNew(fibermw.Config{
			Rules: []fibermw.Rule{{
				Name: "cost", Limit: limits.FixedWindow(limits.PerDay(9)), Key: everybody,
				FinalCost: func(r core.Result) int64 { results <- r; return 1 },
			}},
			Headers: headers.Options{Show: headers.Omit, NotOnRedirects: true},
		})
		app := fiber.New(fiber.Config{DisableDefaultDate: true})
		app.Use(timeout.New(next, patient))
		app.Use(fibermw.Shed(shed.MustNew(shed.Options[fiber.Ctx]{Limit: 9})))
		app.Use(limiter.Middleware())
		app.Get("/", func(c fiber.Ctx) error {
			ctx := c.Context()
			<-ctx.Done()
			return ctx.Err()
		})
		wantLate(t, app, "/", http.StatusGatewayTimeout)
		for range 3 {
			if r := <-results; r.Left || r.Panicked || r.Status != 0 && r.Status != http.StatusGatewayTimeout {
				t.Errorf("ended with %+v", r)
			}
		}
	})
}

// A program that sets a deadline itself has no other goroutine.
func TestALateRequestOfADeadlineIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var returned error
		app := fiber.New(fiber.Config{DisableDefaultDate: true})
		app.Use(func(c fiber.Ctx) error {
			ctx, cancel := context.WithDeadline(c.Context(), time.Now())
			defer cancel()
			c.SetContext(ctx)
			returned = c.Next()
			return returned
		})
		app.Use(perDay(1, everybody).Middleware())
		app.Get("/", hi)
		_, h := want(t, app, "GET", "/", http.StatusServiceUnavailable)
		if h.Get("Retry-After") != "1" || h.Get("Cache-Control") != "no-store" || returned != nil {
			t.Errorf("fields %v, error %v", h, returned)
		}
	})
}

// A time-out of the program's own gets what the limiter would have answered as an error.
func TestALateAnswerIsAnErrorWithItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errs := make(chan error, 1)
		app := fiber.New(fiber.Config{DisableDefaultDate: true})
		app.Use(func(c fiber.Ctx) error {
			ctx, cancel := context.WithCancel(c.Context())
			cancel()
			c.SetContext(ctx)
			go func() { errs <- c.Next() }()
			err := <-errs
			errs <- err
			return err
		})
		app.Use(perDay(1, everybody).Middleware())
		app.Get("/", hi)
		body, _ := want(t, app, "GET", "/", http.StatusServiceUnavailable)
		if err := <-errs; !errors.Is(err, context.Canceled) || body != "Service Unavailable" {
			t.Errorf("error %v, content %q", err, body)
		}
	})
}
