package echomw_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"github.com/weir-go/weir/echomw"
	"github.com/weir-go/weir/shed"
)

func TestStreamFindsTheShedderBehindTheWriterOfTheResponse(t *testing.T) {
	s := shed.MustNew(shed.Options[echo.Context]{})
	e := echo.New()
	e.Use(echomw.Shed(s))
	e.GET("/", func(c echo.Context) error {
		if !shed.Stream(c.Response().Writer) || s.State().Streams != 1 {
			t.Errorf("%+v", s.State())
		}
		return c.String(200, "hello")
	})
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if state := s.State(); state.InFlight+state.Streams != 0 {
		t.Errorf("%+v", state)
	}
}

// Middleware may set another response for the rest of the chain. That one keeps its writer.
func TestShedPutsTheWriterBackIntoTheResponseItWasIn(t *testing.T) {
	s := shed.MustNew(shed.Options[echo.Context]{})
	e := echo.New()
	other := httptest.NewRecorder()
	e.Use(
		func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				first, before := c.Response(), c.Response().Writer
				err := next(c)
				if first.Writer != before || c.Response().Writer != other {
					t.Error("a response has the writer of another")
				}
				return err
			}
		},
		echomw.Shed(s),
	)
	e.GET("/", func(c echo.Context) error {
		c.SetResponse(echo.NewResponse(other, e))
		return c.String(200, "hello")
	})
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	if other.Body.String() != "hello" {
		t.Errorf("%q", other.Body)
	}
}

// net/http looks at the body of its own request to decide whether a connection can serve another one.
func TestShedLeavesTheRequestOfTheServerAlone(t *testing.T) {
	e := echo.New()
	e.Use(echomw.Shed(shed.MustNew(shed.Options[echo.Context]{})))
	served := httptest.NewRequest("POST", "/", strings.NewReader("content"))
	body := served.Body
	e.POST("/", func(c echo.Context) error {
		if served.Body != body || c.Request().Body == body {
			t.Error("the body that the server looks at is another one, or the time of the client is not seen")
		}
		return nil
	})
	e.ServeHTTP(httptest.NewRecorder(), served)
	if served.Body != body {
		t.Error("the request of the server has another body")
	}
}
