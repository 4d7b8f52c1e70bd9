package echomw_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/core"
	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/keyfuncs"
)

func TestAKeyByRouteBeforeRoutingIsAMistake(t *testing.T) {
	e := echo.New()
	var got [2]error
	ask := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			_, got[0] = echomw.RoutePattern(c)
			_, got[1] = echomw.PathParam("id")(c)
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

// A host has a router of its own.
func TestAKeyByRouteAsksTheRouterOfTheHost(t *testing.T) {
	e := echo.New()
	var got error
	e.GET("/shared", hi)
	shop := e.Host("shop.example")
	shop.GET("/users/:id", hi)
	ask := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			_, got = echomw.RoutePattern(c)
			return next(c)
		}
	}
	e.Use(ask)
	send := func(host, path string) {
		r := httptest.NewRequest("GET", path, nil)
		r.Host = host
		e.ServeHTTP(httptest.NewRecorder(), r)
	}
	for _, path := range []string{"/users/1", "/none", "/shared"} { // the last is a 404 there
		if send("shop.example", path); got != nil {
			t.Errorf("in Use, %s: %v", path, got)
		}
	}
	e = echo.New()
	e.Host("shop.example").GET("/users/:id", hi)
	e.Pre(ask)
	if send("shop.example", "/users/1"); !errors.Is(got, keyfuncs.ErrTooEarly) {
		t.Errorf("in Pre: %v", got)
	}
}
