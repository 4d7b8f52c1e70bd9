package fibermw_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gofiber/fiber/v3"

	"github.com/weir-go/weir/fibermw"
	"github.com/weir-go/weir/shed"
)

// A service that admits as many requests at once as it can answer in time. Payments are the
// last to be shed.
func ExampleShed() {
	shedder := shed.MustNew(shed.Options[fiber.Ctx]{
		Classes: []shed.Class{{Name: "payments"}, {Name: "other"}},
		Classify: func(c fiber.Ctx) int {
			if c.Method() == http.MethodPost {
				return 0
			}
			return 1
		},
		Exempt: func(c fiber.Ctx) bool { return c.Path() == "/healthz" },
	})
	app := fiber.New()
	app.Use(fibermw.Shed(shedder)) // outside of limiters and authentication
	app.Get("/users/:id", func(c fiber.Ctx) error { return c.SendString("user " + c.Params("id")) })

	w := ask(app, "GET", "/users/7")
	fmt.Println(w.Code, w.Body)
	fmt.Println(shedder.State().Classes[1].Admitted)
	// Output:
	// 200 user 7
	// 1
}

func TestTheErrorHandlerMayAnswerWhatIsShed(t *testing.T) {
	app := fiber.New()
	begun, may := make(chan bool), make(chan bool)
	app.Use(fibermw.Shed(shed.MustNew(shed.Options[fiber.Ctx]{
		Limit:  1,
		Denied: func(http.ResponseWriter, fiber.Ctx, shed.Event) error { return fiber.ErrServiceUnavailable },
	})))
	app.Get("/slow", func(c fiber.Ctx) error { begun <- true; <-may; return nil })
	done := make(chan bool)
	go func() { want(t, app, "GET", "/slow", 200); close(done) }()
	<-begun
	if body, h := want(t, app, "GET", "/", 503); body != "Service Unavailable" || h.Get("Retry-After") == "" ||
		h.Get("Cache-Control") != "no-store" {
		t.Errorf("fields %v, content %q", h, body)
	}
	may <- true
	<-done
}
