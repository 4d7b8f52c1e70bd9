package fibermw_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/timeout"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/limits"
)

// slots is a limiter of one request at once.
func slots() *fibermw.Limiter {
	return fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{
		{Name: "slots", Limit: limits.Concurrent(1), Key: everybody},
	}})
}

// watching is slots with a rule that depends on the answer. Results go to the channel.
func watching() (*fibermw.Limiter, chan core.Result) {
	results := make(chan core.Result, 16)
	return fibermw.MustNew(fibermw.Config{Rules: []fibermw.Rule{
		{Name: "slots", Limit: limits.Concurrent(1), Key: everybody},
		{Name: "cost", Limit: limits.FixedWindow(limits.PerDay(1000)), Key: everybody,
			FinalCost: func(r core.Result) int64 {
				r.Cost, r.Spent = 0, 0
				results <- r
				return 1
			}},
	}}), results
}

func wantResult(t *testing.T, results chan core.Result, want core.Result) {
	t.Helper()
	select {
	case got := <-results:
		if got != want {
			t.Errorf("ended with %+v, want %+v", got, want)
		}
	case <-time.After(time.Minute): // reached only if no request ends
		t.Fatal("the request has not ended")
	}
}

// waitFor waits until nothing is held: a client has its answer before fasthttp says so.
func waitFor(t *testing.T, limiter *fibermw.Limiter) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); limiter.State().Held > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d units are held", limiter.State().Held)
		}
	}
}

func TestAStreamHoldsItsUnitUntilItIsSent(t *testing.T) {
	first, may := make(chan bool), make(chan bool)
	for name, handler := range map[string]fiber.Handler{
		"SendStreamWriter": func(c fiber.Ctx) error {
			return c.SendStreamWriter(func(w *bufio.Writer) {
				fmt.Fprint(w, "one ")
				w.Flush()
				first <- true
				<-may
				fmt.Fprint(w, "two")
			})
		},
		"SendStream": func(c fiber.Ctx) error {
			r, w := io.Pipe()
			go func() {
				fmt.Fprint(w, "one ")
				first <- true
				<-may
				fmt.Fprint(w, "two")
				w.Close()
			}()
			return c.SendStream(r)
		},
	} {
		limiter := slots()
		app := fiber.New()
		app.Use(limiter.Middleware())
		app.Get("/stream", handler)
		app.Get("/", hi)
		server := httptest.NewServer(serverOf(app))
		body := make(chan string)
		go func() {
			response, err := server.Client().Get(server.URL + "/stream")
			if err != nil {
				t.Error(err)
				close(body)
				return
			}
			all, _ := io.ReadAll(response.Body)
			body <- string(all)
		}()
		<-first // the handler has returned
		if want(t, app, "GET", "/", 429); limiter.State().Held != 1 {
			t.Errorf("%s: %d units are held while it streams", name, limiter.State().Held)
		}
		may <- true
		if got := <-body; got != "one two" {
			t.Errorf("%s: %q", name, got)
		}
		waitFor(t, limiter)
		want(t, app, "GET", "/", 200)
		server.Close()
	}
}

func TestAStreamEndsIfItsHandlerHasResetTheValues(t *testing.T) {
	limiter := slots()
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/", func(c fiber.Ctx) error {
		c.RequestCtx().ResetUserValues()
		return c.SendStreamWriter(func(w *bufio.Writer) { w.WriteString("sent") })
	})
	for range 2 {
		if status, _ := converse(t, app, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); status != 200 {
			t.Errorf("status %d", status)
		}
		waitFor(t, limiter)
	}
}

func TestAConcurrencyLimitAloneEndsBeforeTheAnswerIsSent(t *testing.T) {
	limiter := slots()
	app := fiber.New()
	var held int64
	app.Use(func(c fiber.Ctx) error {
		err := c.Next()
		held = int64(limiter.State().Held)
		return err
	})
	app.Use(limiter.Middleware())
	app.Get("/", hi)
	app.Get("/fails", func(fiber.Ctx) error { return fiber.ErrConflict })
	for path, status := range map[string]int{"/": 200, "/fails": 409, "/none": 404} {
		if want(t, app, "GET", path, status); held != 0 {
			t.Errorf("%s: %d units are held when the handler has returned", path, held)
		}
	}
}

var errMissing = errors.New("no such user")

func TestTheStatusIsThatOfTheErrorHandler(t *testing.T) {
	limiter, results := watching()
	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
		if errors.Is(err, errMissing) {
			return c.SendStatus(http.StatusNotFound)
		}
		return fiber.DefaultErrorHandler(c, err)
	}})
	app.Use("/mapped", func(c fiber.Ctx) error {
		if err := c.Next(); err != nil {
			return c.Status(http.StatusGone).SendString("gone")
		}
		return nil
	})
	app.Use(limiter.Middleware())
	app.Use(recover.New())
	app.Get("/users/:id", func(c fiber.Ctx) error { return fmt.Errorf("user: %w", errMissing) })
	app.Get("/mapped", func(fiber.Ctx) error { return errMissing })
	app.Get("/conflict", func(fiber.Ctx) error { return fiber.NewError(http.StatusConflict, "taken") })
	app.Get("/breaks", func(fiber.Ctx) error { return io.ErrUnexpectedEOF })
	app.Get("/panics", func(fiber.Ctx) error { panic("boom") })
	app.Get("/empty", func(c fiber.Ctx) error { return nil })
	for _, c := range []struct {
		path   string
		status int
		bytes  int64
	}{
		{"/users/7", 404, 9}, {"/mapped", 410, 4}, {"/conflict", 409, 5}, {"/breaks", 500, 14},
		{"/panics", 500, 4}, {"/none", 404, 9}, {"/empty", 200, 0},
	} {
		want(t, app, "GET", c.path, c.status)
		wantResult(t, results, core.Result{Status: c.status, Bytes: c.bytes})
		waitFor(t, limiter)
	}
}

func TestAHandlerThatPanicsOrExitsEndsItsRequest(t *testing.T) {
	limiter, results := watching()
	app := fiber.New()
	app.Use(recover.New(), limiter.Middleware())
	app.Get("/panics", func(c fiber.Ctx) error {
		c.SendString("nobody reads this")
		panic("boom")
	})
	app.Get("/exits", func(fiber.Ctx) error { runtime.Goexit(); return nil })
	want(t, app, "GET", "/panics", 500)
	wantResult(t, results, core.Result{Panicked: true})
	done := make(chan bool)
	go func() {
		defer close(done)
		app.Test(httptest.NewRequest("GET", "/exits", nil))
	}()
	wantResult(t, results, core.Result{Panicked: true})
	waitFor(t, limiter)
}

func TestARequestEndsWithItsTimeout(t *testing.T) {
	limiter, results := watching()
	release := make(chan bool)
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/slow", timeout.New(func(c fiber.Ctx) error {
		<-release
		c.Locals("late", true) // while the limiter has long ended the request
		return c.SendString("late")
	}, timeout.Config{Timeout: time.Millisecond}))
	want(t, app, "GET", "/slow", http.StatusRequestTimeout)
	wantResult(t, results, core.Result{Status: http.StatusRequestTimeout, Bytes: 15})
	waitFor(t, limiter)
	close(release)
}

// Adapters for functions in clouds run an app without the server of fasthttp.
func TestWithoutAServerARequestEndsWithItsHandlers(t *testing.T) {
	limiter, results := watching()
	app := fiber.New()
	app.Use(limiter.Middleware())
	app.Get("/stream", func(c fiber.Ctx) error {
		return c.SendStreamWriter(func(w *bufio.Writer) { fmt.Fprint(w, "streamed") })
	})
	app.Get("/conflict", func(fiber.Ctx) error { return fiber.ErrConflict })
	app.Get("/breaks", func(fiber.Ctx) error { return io.ErrUnexpectedEOF })
	for path, result := range map[string]core.Result{
		"/stream": {Status: 200}, "/conflict": {Status: 409}, "/breaks": {}, // unknown
	} {
		adaptor.FiberApp(app)(httptest.NewRecorder(), httptest.NewRequest("GET", path, nil))
		wantResult(t, results, result)
		if held := limiter.State().Held; held != 0 {
			t.Errorf("%s: %d units are held", path, held)
		}
	}
}
