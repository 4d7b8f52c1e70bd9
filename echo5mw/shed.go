package echo5mw

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/weir-go/weir/internal/http/shedgate"
	"github.com/weir-go/weir/shed"
)

// Shed returns middleware that passes only requests that s admits to the next handler, and answers
// the others with status 503. All middleware of one shedder counts together. It goes outside
// limiters and authentication. If [shed.Options].Route is nil, the route of a request is its Path.
// Shed panics if s is nil or was not made by [shed.New].
func Shed(s *shed.Shedder[*echo.Context]) echo.MiddlewareFunc {
	gate := shedgate.New(s, shedgate.Config[*echo.Context]{
		Route:       (*echo.Context).Path,
		Committed:   committed,
		Answered:    answered,
		WithRequest: withRequest,
	})
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		proceed := func(w http.ResponseWriter, c *echo.Context) error {
			own := c.Response()
			c.SetResponse(w)
			defer c.SetResponse(own)
			return next(c)
		}
		return func(c *echo.Context) error {
			return gate.Serve(c.Response(), c.Request(), c, proceed)
		}
	}
}
