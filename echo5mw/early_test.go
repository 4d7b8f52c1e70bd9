package echo5mw_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/keyfuncs"
)

func TestAKeyByRouteBeforeRoutingIsAMistake(t *testing.T) {
	e := echo.New()
	var got [2]error
	ask := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			_, got[0] = echo5mw.RoutePattern(c)
			_, got[1] = echo5mw.PathParam("id")(c)
			return next(c)
		}
	}
	e.Pre(ask)
	e.GET("/users/:id", hi)
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/users/1", nil))
	for _, err := range got {
		if !errors.Is(err, keyfuncs.ErrTooEarly) {
			t.Errorf("in Pre: %v", err)
		}
	}
	e = echo.New()
	e.Use(ask)
	e.GET("/users/:id", hi)
	for target, want := range map[string][2]error{"/users/1": {}, "/none": {nil, core.ErrAbsent}} {
		e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", target, nil))
		if got != want {
			t.Errorf("in Use, %s: %v", target, got)
		}
	}
}
