package echo5mw_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/echo5mw"
	"github.com/weir-go/weir/shed"
)

// net/http looks at the body of its own request to decide whether a connection can serve another one.
func TestShedLeavesTheRequestOfTheServerAlone(t *testing.T) {
	e := echo.New()
	e.Use(echo5mw.Shed(shed.MustNew(shed.Options[*echo.Context]{})))
	served := httptest.NewRequest("POST", "/", strings.NewReader("content"))
	body := served.Body
	e.POST("/", func(c *echo.Context) error {
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
