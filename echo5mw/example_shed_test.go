package echo5mw_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/shed"
)

// A service that admits as many requests at once as it can answer in time. Payments are the
// last to be shed.
func ExampleShed() {
	shedder := shed.MustNew(shed.Options[*echo.Context]{
		Classes: []shed.Class{{Name: "payments"}, {Name: "other"}},
		Classify: func(c *echo.Context) int {
			if c.Request().Method == http.MethodPost {
				return 0
			}
			return 1
		},
		Exempt: func(c *echo.Context) bool { return c.Path() == "/healthz" },
	})
	e := echo.New()
	e.Use(echo5mw.Shed(shedder)) // outside of limiters and authentication
	e.GET("/users/:id", func(c *echo.Context) error { return c.String(http.StatusOK, "user "+c.Param("id")) })

	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest("GET", "/users/7", nil))
	fmt.Println(w.Code, w.Body)
	fmt.Println(shedder.State().Classes[1].Admitted)
	// Output:
	// 200 user 7
	// 1
}
